// The tuner behind the daemon: answers TUNE requests (docs/reference/protocol.md) on a channel, and tunes what they ask
// for.
#pragma once

#include <string>

#include "kiln/autotune/tune.h"
#include "kiln/client/connection.h"
#include "kiln/wire/fd.h"

namespace kiln::autotune {

struct ServeOptions {
  client::ConnectOptions connect;  // the daemon that compiles the candidates
  std::string database;            // empty: Records::default_path
  std::string golden;              // a file that wins over the database; empty: none
  RunnerOptions runner;            // its kind follows the request
  TuneOptions tune;
  Seconds budget = Seconds(30);  // of a request that names none
};

// Returns when the channel closes; what is being tuned then is given up, and its measurements are kept. Each device has
// a runner and a thread of its own. Requests for one key share one search. One that no launch waits for begins when the
// daemon has nothing to compile, or after half a minute, and lets compiles that somebody waits for go before each of
// its measurements. With tune.frozen nothing is measured.
void serve(wire::UniqueFd channel, const ServeOptions& options);

}  // namespace kiln::autotune
