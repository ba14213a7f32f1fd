// Where candidates are compiled: in the daemon's workers, ahead of their measurement.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "kiln/autotune/space.h"
#include "kiln/client/connection.h"
#include "kiln/dsl/artifact.h"

namespace kiln::autotune {

// Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // Names the compiler exactly; measurements hold where it is equal.
  virtual std::string builder_id() const = 0;
  // What "cpu" and the like stand for.
  virtual Result<std::string> resolve_target(const std::string& target) = 0;
  virtual std::future<Result<Artifact>> compile(const dsl::Kernel& kernel, const std::string& target,
                                                const Config& config, const dsl::Facts& facts) = 0;
  // Between the two nothing compiles for this object: hold() waits for what is being compiled, and what is asked for
  // meanwhile waits for release(). For measurements on the CPU that compiles.
  virtual void hold() {}
  virtual void release() {}
};

// By a daemon, found or started, with background priority. At most `ahead` compiles are in flight.
Result<std::unique_ptr<Compiler>> daemon_compiler(const client::ConnectOptions& options, int ahead = 4);

}  // namespace kiln::autotune
