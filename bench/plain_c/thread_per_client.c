/* Row 6: a thread for each client. */
#include <pthread.h>

#include "server.h"

static void *run(void *argument)
{
    int client = (int)(long)argument;
    pthread_detach(pthread_self());
    serve(client);
    close(client);
    return NULL;
}

int main(void)
{
    int listener = listening();
    for (;;) {
        long client = checked("accept", accept(listener, NULL, NULL));
        pthread_t thread;
        checked("pthread_create", -pthread_create(&thread, NULL, run, (void *)client));
    }
}
