/* Row 2: a pool of processes, each of which calls accept. */
#include "server.h"

static void work(int listener)
{
    for (;;) {
        int client = checked("accept", accept(listener, NULL, NULL));
        serve(client);
        close(client);
    }
}

int main(void)
{
    int listener = listening();
    for (int worker = 0; worker < WORKERS; worker++)
        start_worker(work, listener);
    signal(SIGTERM, stop);
    for (;;)
        pause();
}
