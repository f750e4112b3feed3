#!/bin/bash
set -e
cd site
find . -type f -name '*.html' | sort | tar -czf ../site.tar.gz -T -
