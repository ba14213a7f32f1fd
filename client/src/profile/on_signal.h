// SIGUSR2 as a wish to see how far the program is.
#pragma once

namespace kiln::client {

// From now on `show` runs, on a thread of its own, each time that the process gets SIGUSR2. A program that has a
// handler for the signal, or ignores it, keeps that, and nothing is shown; so does one that gets one later. Once a
// process.
void show_on_signal(void (*show)());
// Waits for it, where it runs; it does not run again. The signal then does nothing.
void show_no_more();

}  // namespace kiln::client
