// A library of somebody else's: where it is loaded it leaves a file beside itself, if it may.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>

__attribute__((constructor)) static void mark(void) {
  Dl_info self;
  char path[4096];
  if (!dladdr((void*)mark, &self)) return;
  snprintf(path, sizeof path, "%s.mark", self.dli_fname);
  (void)!open(path, O_CREAT | O_WRONLY, 0600);
}
