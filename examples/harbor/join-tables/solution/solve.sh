#!/bin/bash
set -e
join -t $'\t' <(sort -k 1,1 people.tsv) <(sort -k 1,1 cities.tsv) | sort -n > joined.tsv
