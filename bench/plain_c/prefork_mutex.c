/* Row 4: a pool of processes, with a mutex in shared memory around accept. */
#include <pthread.h>
#include <sys/mman.h>

#include "server.h"

static pthread_mutex_t *mutex;

static void work(int listener)
{
    for (;;) {
        pthread_mutex_lock(mutex);
        int client = checked("accept", accept(listener, NULL, NULL));
        pthread_mutex_unlock(mutex);
        serve(client);
        close(client);
    }
}

int main(void)
{
    int listener = listening();
    mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex, &shared);
    for (int worker = 0; worker < WORKERS; worker++)
        start_worker(work, listener);
    signal(SIGTERM, stop);
    for (;;)
        pause();
}
