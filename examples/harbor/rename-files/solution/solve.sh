#!/bin/bash
set -e
cd photos
for file in IMG-*.txt; do
  number=${file#IMG-}
  mv "$file" "$(printf 'IMG-%04d.txt' "${number%.txt}")"
done
