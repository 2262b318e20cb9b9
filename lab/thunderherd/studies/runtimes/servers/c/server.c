/* A thread for each client, with blocking calls: server http|echo PORT. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY = 4000, BUFFER = 65536 };
static char reply[BODY + 128];
static size_t reply_length;
static int is_echo;

static int send_all(int client, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t sent = write(client, bytes, length);
        if (sent <= 0) return 0;
        bytes += sent;
        length -= (size_t)sent;
    }
    return 1;
}

/* Answers each head, which ends with an empty line. */
static int answer(int client, const char *bytes, size_t length, size_t *matched) {
    static const char end[] = "\r\n\r\n";
    for (size_t at = 0; at < length; at++) {
        *matched = bytes[at] == end[*matched] ? *matched + 1 : bytes[at] == '\r';
        if (*matched == 4) {
            *matched = 0;
            if (!send_all(client, reply, reply_length)) return 0;
        }
    }
    return 1;
}

static void *serve(void *argument) {
    int client = (int)(intptr_t)argument, one = 1;
    char buffer[BUFFER];
    size_t matched = 0;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        ssize_t length = read(client, buffer, sizeof buffer);
        if (length <= 0) break;
        int sent = is_echo ? send_all(client, buffer, (size_t)length) : answer(client, buffer, (size_t)length, &matched);
        if (!sent) break;
    }
    close(client);
    return NULL;
}

int main(int count, char **words) {
    if (count != 3) return fprintf(stderr, "usage: server http|echo PORT\n"), 2;
    is_echo = strcmp(words[1], "echo") == 0;
    signal(SIGPIPE, SIG_IGN);
    reply_length = (size_t)sprintf(reply, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BODY);
    memset(reply + reply_length, 'x', BODY);
    reply_length += BODY;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[2]))};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0)
        return perror("listen"), 1;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 256 * 1024);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        pthread_t thread;
        if (client >= 0 && pthread_create(&thread, &detached, serve, (void *)(intptr_t)client) != 0) close(client);
    }
}
