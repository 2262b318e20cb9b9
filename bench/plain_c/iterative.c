/* Row 0: one process, one client after another. */
#include "server.h"

int main(void)
{
    int listener = listening();
    for (;;) {
        int client = checked("accept", accept(listener, NULL, NULL));
        serve(client);
        close(client);
    }
}
