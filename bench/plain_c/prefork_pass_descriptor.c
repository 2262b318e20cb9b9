/* Row 5: a pool of processes, to which their parent passes each connection. */
#include <sys/select.h>

#include "server.h"

static int channels[WORKERS];
static int is_busy[WORKERS];

static void pass(int channel, int client)
{
    char byte = 0, space[CMSG_SPACE(sizeof client)];
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof client);
    memcpy(CMSG_DATA(rights), &client, sizeof client);
    checked("sendmsg", sendmsg(channel, &message, 0));
}

static int passed(int channel)
{
    int client = -1;
    char byte, space[CMSG_SPACE(sizeof client)];
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (recvmsg(channel, &message, 0) <= 0)
        exit(0);
    memcpy(&client, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof client);
    return client;
}

static void work(int channel)
{
    for (;;) {
        int client = passed(channel);
        serve(client);
        close(client);
        checked("write", write(channel, "", 1));
    }
}

int main(void)
{
    int listener = listening(), highest = listener, idle = WORKERS;
    fd_set all;
    FD_ZERO(&all);
    FD_SET(listener, &all);
    for (int worker = 0; worker < WORKERS; worker++) {
        int ends[2];
        checked("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
        start_worker(work, ends[1]);
        close(ends[1]);
        channels[worker] = ends[0];
        FD_SET(ends[0], &all);
        highest = ends[0] > highest ? ends[0] : highest;
    }
    signal(SIGTERM, stop);
    for (;;) {
        fd_set ready = all;
        if (idle == 0)
            FD_CLR(listener, &ready);
        checked("select", select(highest + 1, &ready, NULL, NULL, NULL));
        if (FD_ISSET(listener, &ready)) {
            int client = checked("accept", accept(listener, NULL, NULL)), worker = 0;
            while (is_busy[worker])
                worker++;
            is_busy[worker] = 1;
            idle--;
            pass(channels[worker], client);
            close(client);
        }
        for (int worker = 0; worker < WORKERS; worker++) {
            char byte;
            if (FD_ISSET(channels[worker], &ready) && read(channels[worker], &byte, 1) == 1) {
                is_busy[worker] = 0;
                idle++;
            }
        }
    }
}
