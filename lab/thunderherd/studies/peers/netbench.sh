# Prints the result of netbench as a JSON line: sh netbench.sh SECONDS OPTION... Its rate is in whole thousands, so the line
# has the number of its latencies, which is that of its round trips.
seconds=$1
shift
netbench --client_only 1 --time "$seconds" "$@" 2>&1 | awk -v seconds="$seconds" '
function figure(name) { return match($0, name "=[0-9]+") ? substr($0, RSTART + length(name) + 1, RLENGTH - length(name) - 1) : "" }
/packetsPerSecond=/ && figure("count") {
    errors = figure("connectErrors") + figure("sendErrors") + figure("recvErrors")
    printf "{\"requests\": %d, \"errors\": %d, \"seconds\": %s, ", figure("count"), errors, seconds
    printf "\"mean\": %se-6, \"p50\": %se-6, \"maximum\": %se-6}\n", figure("avg"), figure("p50"), figure("p100")
}'
