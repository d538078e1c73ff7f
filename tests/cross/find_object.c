// Debian's libgcc calls this function of glibc to find the unwind tables of an address. In a program that is linked
// with musl, this version searches the program headers.
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stddef.h>

// As in <dlfcn.h> of glibc 2.35 on x86-64.
struct dl_find_object {
    unsigned long long flags;
    void *map_start;
    void *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};

struct search {
    ElfW(Addr) address;
    struct dl_find_object *found;
};

static int look(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    int inside = 0;
    for (int n = 0; n < object->dlpi_phnum; n++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[n];
        ElfW(Addr) start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && search->address - start < part->p_memsz) {
            inside = 1;
            search->found->map_start = (void *)start;
            search->found->map_end = (void *)(start + part->p_memsz);
        }
        if (part->p_type == PT_GNU_EH_FRAME) {
            search->found->eh_frame = (void *)start;
        }
    }
    return inside;
}

int _dl_find_object(void *address, struct dl_find_object *found) {
    struct search search = {(ElfW(Addr))address, found};
    *found = (struct dl_find_object){0};
    return dl_iterate_phdr(look, &search) && found->eh_frame ? 0 : -1;
}

// libgcc's references to these functions are weak, so they link nothing from an archive, and libgcc would call null.
// This table links the functions.
void *const wanted[] = {
    (void *)pthread_once,        (void *)pthread_mutex_lock,  (void *)pthread_mutex_unlock,
    (void *)pthread_getspecific, (void *)pthread_setspecific, (void *)pthread_key_create,
};
