#!/bin/bash
# Show what pip downloads and builds, without the lines about packages that are already installed.
grep --line-buffered -E '^(  Downloading|Building wheels|Installing collected|Successfully installed|ERROR)' |
  sed -u -E 's/^(.{150}).*/\1.../' || true
