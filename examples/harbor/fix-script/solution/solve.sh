#!/bin/bash
set -e
sed -i 's/| uniq/| sort -u/' count.sh
