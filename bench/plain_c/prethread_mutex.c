/* Row 7: a pool of threads, with a mutex around accept. */
#include <pthread.h>

#include "server.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument)
{
    int listener = (int)(long)argument;
    for (;;) {
        pthread_mutex_lock(&mutex);
        int client = checked("accept", accept(listener, NULL, NULL));
        pthread_mutex_unlock(&mutex);
        serve(client);
        close(client);
    }
    return argument;
}

int main(void)
{
    long listener = listening();
    for (int worker = 0; worker < WORKERS; worker++) {
        pthread_t thread;
        checked("pthread_create", -pthread_create(&thread, NULL, work, (void *)listener));
    }
    for (;;)
        pause();
}
