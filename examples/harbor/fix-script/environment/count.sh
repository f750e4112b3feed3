#!/bin/bash
# Prints the number of different words in a file.
tr "A-Z" "a-z" < "$1" | tr -s " \n" "\n\n" | uniq | wc -l | tr -d " "
