// Static probes (USDT) for perf, bpftrace and SystemTap: each is a `nop`, and a note that says where it is and what it
// has. Texts are given as their first byte and their length.
#pragma once

#include <string_view>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define KILN_PROBE(name) STAP_PROBE(kiln, name)
#define KILN_PROBE_TEXT(name, text) STAP_PROBE2(kiln, name, (text).data(), (text).size())
#define KILN_PROBE_TEXTS(name, text, more) \
  STAP_PROBE4(kiln, name, (text).data(), (text).size(), (more).data(), (more).size())
#else
#define KILN_PROBE(name) (void)0
#define KILN_PROBE_TEXT(name, text) (void)(text)
#define KILN_PROBE_TEXTS(name, text, more) (void)(text), (void)(more)
#endif
