#!/bin/bash
# Shows what pip fetches and builds, without the lines that repeat what is already installed.
grep --line-buffered -E '^(  Downloading|Building wheels|Installing collected|Successfully installed|ERROR)' |
  sed -u -E 's/^(.{150}).*/\1.../' || true
