/* Row 8: a pool of threads, which take connections from a queue that the first thread fills. */
#include <pthread.h>

#include "server.h"

enum { PLACES = 32 };

static int clients[PLACES], first, last;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_filled = PTHREAD_COND_INITIALIZER;

static void *work(void *argument)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (first == last)
            pthread_cond_wait(&is_filled, &mutex);
        int client = clients[first];
        first = (first + 1) % PLACES;
        pthread_mutex_unlock(&mutex);
        serve(client);
        close(client);
    }
    return argument;
}

int main(void)
{
    int listener = listening();
    for (int worker = 0; worker < WORKERS; worker++) {
        pthread_t thread;
        checked("pthread_create", -pthread_create(&thread, NULL, work, NULL));
    }
    for (;;) {
        int client = checked("accept", accept(listener, NULL, NULL));
        pthread_mutex_lock(&mutex);
        clients[last] = client;
        last = (last + 1) % PLACES;
        if (last == first) {
            fprintf(stderr, "the queue is full\n");
            return 1;
        }
        pthread_cond_signal(&is_filled);
        pthread_mutex_unlock(&mutex);
    }
}
