/* Row 1: a process for each client. */
#include "server.h"

static void reap(int signal_number)
{
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int main(void)
{
    int listener = listening();
    struct sigaction action = {.sa_handler = reap, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    signal(SIGTERM, stop);
    for (;;) {
        int client = checked("accept", accept(listener, NULL, NULL));
        if (checked("fork", fork()) == 0) {
            close(listener);
            serve(client);
            exit(0);
        }
        close(client);
    }
}
