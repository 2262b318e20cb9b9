# Attacks first and reports afterwards: sh vegeta.sh URL RATE SECONDS CLIENTS.
results=$(mktemp) && trap 'rm -f "$results"' EXIT
echo "GET $1" | vegeta attack -rate "$2" -duration "$3s" -max-workers "$4" -output "$results" &&
    vegeta report -type json "$results"
