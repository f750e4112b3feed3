#!/bin/bash
set -e
cat > roman.sh << 'END'
#!/bin/bash
[[ $1 =~ ^[1-9][0-9]{0,3}$ ]] && [ "$1" -le 3999 ] || exit 1
rest=$1
values=(1000 900 500 400 100 90 50 40 10 9 5 4 1)
signs=(M CM D CD C XC L XL X IX V IV I)
for index in "${!values[@]}"; do
  while [ "$rest" -ge "${values[index]}" ]; do
    printf %s "${signs[index]}"
    rest=$((rest - values[index]))
  done
done
echo
END
