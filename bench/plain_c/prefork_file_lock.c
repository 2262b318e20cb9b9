/* Row 3: a pool of processes, with a lock of a file around accept. */
#include <fcntl.h>

#include "server.h"

static int file;

static void lock(int type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    checked("fcntl", fcntl(file, F_SETLKW, &whole));
}

static void work(int listener)
{
    for (;;) {
        lock(F_WRLCK);
        int client = checked("accept", accept(listener, NULL, NULL));
        lock(F_UNLCK);
        serve(client);
        close(client);
    }
}

int main(void)
{
    int listener = listening();
    char name[] = "/tmp/lock.XXXXXX";
    file = checked("mkstemp", mkstemp(name));
    unlink(name);
    for (int worker = 0; worker < WORKERS; worker++)
        start_worker(work, listener);
    signal(SIGTERM, stop);
    for (;;)
        pause();
}
