// Included before all else in builds with the thread sanitizer: std::timed_mutex locks by pthread_mutex_timedlock,
// which GCC 12's knows (GCC 13's library does so by itself).
#include <bits/c++config.h>
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
