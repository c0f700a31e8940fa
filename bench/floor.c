/* Floors without an interpreter: what one HTTP check or one command costs at least, as a program in C.
 *
 *   floor http PORT PATH WORD COUNT     connect, ask, read to the end, look for the word, close
 *   floor spawn COUNT PROGRAM [ARG...]  posix_spawn with output to the null device, wait; exit code 0 or the end
 *
 * Prints CPU microseconds (user + system, children included) and wall microseconds of one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char answer[4 << 20];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double used(int who) {
    struct rusage u;
    getrusage(who, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double cpu(void) { return used(RUSAGE_SELF) + used(RUSAGE_CHILDREN); }

static double wall(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void ask(int port, const char *path, const char *word) {
    char request[512];
    size_t got = 0;
    ssize_t part;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) fail("connect");
    snprintf(request, sizeof request, "GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
    if (write(fd, request, strlen(request)) < 0) fail("write");
    while (got < sizeof answer && (part = read(fd, answer + got, sizeof answer - got)) > 0) got += part;
    close(fd);
    if (!memmem(answer, got, " 200 ", 5) || !memmem(answer, got, word, strlen(word))) fail("the answer");
}

static void spawn(char **argv) {
    pid_t pid;
    int status;
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0) fail("posix_spawn");
    if (waitpid(pid, &status, 0) < 0 || status != 0) fail("the program");
    posix_spawn_file_actions_destroy(&actions);
}

int main(int argc, char **argv) {
    int http = argc == 6 && !strcmp(argv[1], "http");
    int count, i;
    double before, begun;

    if (!http && (argc < 4 || strcmp(argv[1], "spawn"))) return 2;
    count = atoi(argv[http ? 5 : 2]);
    before = cpu();
    begun = wall();
    for (i = 0; i < count; i++) {
        if (http)
            ask(atoi(argv[2]), argv[3], argv[4]);
        else
            spawn(argv + 3);
    }
    printf("%.2f %.2f\n", (cpu() - before) / count * 1e6, (wall() - begun) / count * 1e6);
    return 0;
}
