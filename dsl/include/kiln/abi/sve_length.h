/* The length of AArch64's scalable vectors, as the calling thread has it. Plain C. */
#ifndef KILN_SVE_LENGTH_H
#define KILN_SVE_LENGTH_H

#if defined(__aarch64__)
#include <stdint.h>
#include <sys/auxv.h>
#endif

/* In bits; 0: there are no such vectors. Asked of the processor, because a filter of system calls may refuse prctl. */
static inline int kiln_sve_bits(void) {
#if defined(__aarch64__)
  enum { kSve = 1 << 22 }; /* HWCAP_SVE, where the headers do not know it */
  uint64_t bytes = 0;
  if ((getauxval(AT_HWCAP) & kSve) == 0) return 0;
  __asm__(".arch_extension sve\n\trdvl %0, #1" : "=r"(bytes));
  return (int)(8 * bytes);
#else
  return 0;
#endif
}

#endif
