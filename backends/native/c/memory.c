/* Memory of new arrays. */
#include "calls.h"

#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* The size of a cache line, and of the widest vector. Malloc begins 16 bytes after a line: then
 * every vector lies in two lines, which costs a matrix product a tenth of its time. */
#define LINE 64
/* Arrays of this many bytes or more begin at a line. */
#define LARGE 16384

/* Arrays of this many bytes or more may lie in huge pages, as NumPy's do: the first touch of each
 * page of 4 KiB takes as long as reading it twice. */
#define HUGE_ARRAY 4194304
#define PAGE 4096

/* What NumPy's arrays are to tracemalloc: numpy.lib.tracemalloc_domain. */
#define TRACE_DOMAIN 389047

/* Lies before the data of an array. */
typedef struct {
    void *block;
    size_t size;
} Header;

static Header *header(void *data) { return (Header *)data - 1; }

static void *line_malloc(void *context, size_t size) {
    (void)context;
    char *block = size < (size_t)-1 - 2 * LINE ? malloc(size + LINE + sizeof(Header)) : NULL;
    if (!block)
        return NULL;
    void *data = (void *)(((uintptr_t)block + sizeof(Header) + LINE - 1) / LINE * LINE);
    *header(data) = (Header){block, size};
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= HUGE_ARRAY) {
        size_t skipped = PAGE - (uintptr_t)data % PAGE;
        madvise((char *)data + skipped, size - skipped, MADV_HUGEPAGE); /* may be refused */
    }
#endif
    return data;
}

static void *line_calloc(void *context, size_t count, size_t size) {
    void *data = size && count > (size_t)-1 / size ? NULL : line_malloc(context, count * size);
    return data ? memset(data, 0, count * size) : NULL;
}

static void line_free(void *context, void *data, size_t size) {
    (void)context, (void)size;
    if (data)
        free(header(data)->block);
}

static void *line_realloc(void *context, void *data, size_t size) {
    void *moved = line_malloc(context, size);
    if (moved && data) {
        memcpy(moved, data, header(data)->size < size ? header(data)->size : size);
        line_free(context, data, 0);
    }
    return moved;
}

/* By NEP 49, an array keeps the handler that frees its data. */
static PyDataMem_Handler handler = {
    "pullback_native", 1, {NULL, line_malloc, line_calloc, line_realloc, line_free}};
static PyObject *lines;

PyObject *new_array_of(int type, npy_intp item_size, int ndim, const npy_intp *shape) {
    npy_intp bytes = item_size;
    for (int axis = 0; axis < ndim && bytes > 0; axis++)
        bytes = shape[axis] > NPY_MAX_INTP / bytes ? -1 : bytes * shape[axis];
    if (bytes < LARGE) /* or an invalid size: NumPy raises */
        return PyArray_SimpleNew(ndim, (npy_intp *)shape, type);
    if (!lines && !(lines = PyCapsule_New(&handler, "mem_handler", NULL)))
        return NULL;
    void *data = line_malloc(NULL, (size_t)bytes);
    if (!data)
        return PyErr_NoMemory();
    PyObject *y = PyArray_SimpleNewFromData(ndim, (npy_intp *)shape, type, data);
    if (!y) {
        line_free(NULL, data, 0);
        return NULL;
    }
    /* PyDataMem_SetHandler would do the same for 0.4 us. */
    ((PyArrayObject_fields *)y)->mem_handler = Py_NewRef(lines);
    PyArray_ENABLEFLAGS(as_array(y), NPY_ARRAY_OWNDATA);
    /* As NumPy, which untracks it when the array ends. */
    PyTraceMalloc_Track(TRACE_DOMAIN, (uintptr_t)data, (size_t)bytes);
    return y;
}

PyObject *new_array(int ndim, const npy_intp *shape) {
    return new_array_of(NPY_FLOAT, sizeof(float), ndim, shape);
}
