#include "pool.h"

static void run_here(Loop loop, const void *args, ptrdiff_t count, ptrdiff_t grain) {
    for (ptrdiff_t from = 0; from < count; from += grain)
        loop(from, from + grain < count ? from + grain : count, args);
}

#ifdef _WIN32

int pool_awake(void) { return 0; }

void pool_run(Loop loop, const void *args, ptrdiff_t count, ptrdiff_t grain, int threads) {
    (void)threads;
    run_here(loop, args, count, grain);
}

#else

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How often a thread looks for work before it sleeps: for some 2 ms. Kernels follow each other,
 * with 10 to 200 us of Python between them, and waking a thread takes 40 us, or more on a virtual
 * machine whose neighbours take an idle core at once. After 100 us the thread yields to others that
 * want the core. */
#define LOOKS 40000
#define LOOKS_ALONE 2000

typedef struct {
    pthread_mutex_t busy; /* held by the caller whose work it is */
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t wake, left;
    int helpers;         /* threads that were started */
    int open, inside;    /* threads that may still join, and threads that work */
    atomic_ulong number; /* of the work */
    atomic_long next;    /* the first element that no thread has taken */
    atomic_int working;  /* as `inside`, to read without the lock */
    atomic_int looking;  /* threads that look for the next work */
    Loop loop;
    const void *args;
    ptrdiff_t count, grain;
} Pool;

#define FRESH                                                                                      \
    {.busy = PTHREAD_MUTEX_INITIALIZER,                                                            \
     .lock = PTHREAD_MUTEX_INITIALIZER,                                                            \
     .wake = PTHREAD_COND_INITIALIZER,                                                             \
     .left = PTHREAD_COND_INITIALIZER}
static Pool pool = FRESH;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static inline void pause_briefly(int looks) {
    if (looks >= LOOKS_ALONE && looks % 32 == 0)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void work(Loop loop, const void *args, ptrdiff_t count, ptrdiff_t grain) {
    for (;;) {
        ptrdiff_t from = atomic_fetch_add(&pool.next, grain);
        if (from >= count)
            return;
        loop(from, from + grain < count ? from + grain : count, args);
    }
}

static void *serve(void *unused) {
    (void)unused;
    unsigned long seen = 0;
    for (;;) {
        atomic_fetch_add(&pool.looking, 1);
        for (int i = 0; i < LOOKS && atomic_load(&pool.number) == seen; i++)
            pause_briefly(i);
        atomic_fetch_sub(&pool.looking, 1);
        pthread_mutex_lock(&pool.lock);
        while (atomic_load(&pool.number) == seen || !pool.open) {
            seen = atomic_load(&pool.number);
            pthread_cond_wait(&pool.wake, &pool.lock);
        }
        seen = atomic_load(&pool.number);
        pool.open--;
        pool.inside++;
        atomic_fetch_add(&pool.working, 1);
        Loop loop = pool.loop;
        const void *args = pool.args;
        ptrdiff_t count = pool.count, grain = pool.grain;
        pthread_mutex_unlock(&pool.lock);
        work(loop, args, count, grain);
        pthread_mutex_lock(&pool.lock);
        pool.inside--;
        atomic_fetch_sub(&pool.working, 1);
        if (!pool.inside)
            pthread_cond_signal(&pool.left);
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

/* A child process has none of the threads, and its locks are as they were at the fork. */
static void forget(void) {
    static const Pool fresh = FRESH;
    pool = fresh;
}

static void prepare(void) { pthread_atfork(NULL, NULL, forget); }

static void start(int wanted) {
    while (pool.helpers < wanted) {
        pthread_t thread;
        pthread_attr_t how;
        pthread_attr_init(&how);
        pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
        int failed = pthread_create(&thread, &how, serve, NULL);
        pthread_attr_destroy(&how);
        if (failed)
            return;
        pool.helpers++;
    }
}

int pool_awake(void) { return atomic_load(&pool.looking) > 0; }

void pool_run(Loop loop, const void *args, ptrdiff_t count, ptrdiff_t grain, int threads) {
    if (threads > POOL_MOST)
        threads = POOL_MOST;
    ptrdiff_t pieces = (count + grain - 1) / grain;
    if (pieces < threads)
        threads = (int)pieces;
    /* Another caller uses the pool: this thread works alone. */
    if (threads < 2 || pthread_once(&once, prepare) || pthread_mutex_trylock(&pool.busy)) {
        run_here(loop, args, count, grain);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    start(threads - 1);
    pool.loop = loop, pool.args = args, pool.count = count, pool.grain = grain;
    pool.open = threads - 1 < pool.helpers ? threads - 1 : pool.helpers;
    atomic_store(&pool.next, 0);
    atomic_fetch_add(&pool.number, 1);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    work(loop, args, count, grain);
    /* Threads that have not joined yet are not waited for. */
    pthread_mutex_lock(&pool.lock);
    pool.open = 0;
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < LOOKS && atomic_load(&pool.working); i++)
        pause_briefly(i);
    pthread_mutex_lock(&pool.lock);
    while (pool.inside)
        pthread_cond_wait(&pool.left, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.busy);
}

#endif
