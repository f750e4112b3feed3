#!/bin/bash
set -e
fold -s -w 40 letter.txt | sed 's/ *$//' > wrapped.txt
