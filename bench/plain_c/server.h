/* What all programs of this folder share: the listening socket, one connection, and the end by SIGTERM. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 15, BACKLOG = 1024, LONGEST_LINE = 64, LARGEST_REPLY = 16384 };

/* Ends this process with a message if a call has failed. */
static inline int checked(const char *call, int result)
{
    if (result < 0) {
        perror(call);
        exit(1);
    }
    return result;
}

/* Returns a socket that listens at HOST and PORT of the environment. */
static inline int listening(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(getenv("PORT")))};
    inet_pton(AF_INET, getenv("HOST"), &address.sin_addr);
    int one = 1, listener = checked("socket", socket(AF_INET, SOCK_STREAM, 0));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    checked("bind", bind(listener, (struct sockaddr *)&address, sizeof address));
    checked("listen", listen(listener, BACKLOG));
    return listener;
}

static char reply[LARGEST_REPLY];

/* Fills the reply: each byte is its place modulo 251. */
__attribute__((constructor)) static void fill(void)
{
    for (int place = 0; place < LARGEST_REPLY; place++)
        reply[place] = place % 251;
}

/* Serves one connection until its client closes: a line with a number is answered by so many bytes. */
static inline void serve(int client)
{
    char line[LONGEST_LINE + 1];
    size_t have = 0;
    for (;;) {
        ssize_t received = read(client, line + have, LONGEST_LINE - have);
        if (received <= 0)
            return;
        have += received;
        line[have] = 0;
        char *end = strchr(line, '\n');
        if (end == NULL) {
            if (have == LONGEST_LINE)
                return;
            continue;
        }
        have = 0;
        long left = atol(line);
        if (left <= 0 || left > LARGEST_REPLY)
            return;
        while (left > 0) {
            ssize_t sent = write(client, reply, left);
            if (sent <= 0)
                return;
            left -= sent;
        }
    }
}

/* Ends all processes of this group, and then this one. */
static inline void stop(int signal_number)
{
    signal(signal_number, SIG_IGN);
    kill(0, signal_number);
    while (wait(NULL) > 0)
        ;
    _exit(0);
}

/* Forks a worker that runs until it is killed. */
static inline void start_worker(void (*run)(int), int argument)
{
    if (checked("fork", fork()) == 0) {
        signal(SIGTERM, SIG_DFL);
        run(argument);
        exit(0);
    }
}
