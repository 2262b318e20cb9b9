# Keeps a server in the foreground that ends after one test, or with an error after SIGTERM: sh stay.sh COMMAND ARGUMENT...
trap 'kill $! 2>/dev/null; wait; exit 0' TERM
"$@" &
wait
# The test is over.
sleep 86400 &
wait
