// Where candidates are compiled: in the daemon's workers, ahead of their measurement.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "kiln/autotune/space.h"
#include "kiln/client/connection.h"
#include "kiln/dsl/artifact.h"

namespace kiln::autotune {

// A refusal of this kernel and config, which another try would meet too; else the service is in trouble.
bool is_verdict(ErrorCode code);

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
  // How many compiles are worth having in flight.
  virtual size_t at_once() const { return 4; }
  // Between the two nothing compiles for this object: hold() waits for what is being compiled, and what is asked for
  // meanwhile waits for release(). For measurements on the CPU that compiles.
  virtual void hold() {}
  virtual void release() {}
};

// What a batch has in flight: a few cores are left to the runner, which must not wait for one, and to the tuner.
int compiles_at_once();

// By a daemon, found or started, with background priority. At most `ahead` compiles are in flight.
Result<std::unique_ptr<Compiler>> daemon_compiler(const client::ConnectOptions& options, int ahead = 4);

}  // namespace kiln::autotune
