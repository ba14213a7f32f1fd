// The commands of `kiln`. Each returns an error to print, or has done its work.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "kiln/dsl/binary.h"

namespace kiln::cli {

// A kernel file and the config that the command line states for it.
struct KernelFlags {
  std::string file;
  std::string target = "cpu";
  std::vector<std::string> sets;  // "BLOCK=1024" or "BM=64,BN=32"
  std::string facts;              // "A=align16,K=x16,N=one"
  uint32_t deadline_ms = 0;
};

// Code of the caller's own for a kernel that only declares it.
struct CodeFlags {
  std::string file;           // empty: the kernel has ops
  std::string entry;          // the function in it; empty: the kernel's name
  int64_t block_threads = 1;  // GPUs
  int64_t shared_bytes = 0;   // GPUs: beyond what the code declares
};

struct RunFlags {
  KernelFlags kernel;
  CodeFlags code;
  std::string grid;  // "X,Y,Z"; empty: the kernel's own
  int threads = 0;
  int repeat = 0;  // so many more launches, which are timed
  std::vector<std::string> arguments;
  std::string key_file;  // of a bundle: that authenticates it
  bool trust = false;
};
Result<void> run(const RunFlags& flags);

struct CompileFlags {
  KernelFlags kernel;
  std::vector<std::string> more;  // files of further kernels, where the output is an archive
  std::string entry;              // its name; empty: kiln_entry, or of an archive's kernels KERNEL_entry
  std::string emit = "so";
  std::string output;         // empty with dump_after: nothing is compiled
  std::string dump_after;     // a pass, "all" or "llvm": what it left goes to standard output
  uint64_t memory_bytes = 0;  // 0: the daemon's default
};
Result<void> compile(const CompileFlags& flags);

Result<void> print_kernel(const std::string& file);
Result<void> verify_kernel(const std::string& file);
Result<void> hash_kernel(const KernelFlags& flags);
Result<void> export_library(const std::string& directory);

Result<void> serve(const std::vector<std::string>& daemon_flags);
Result<void> ping();
struct StatsFlags {
  bool json = false, prometheus = false, poison = false, clear_poison = false;  // at most one
};
Result<void> stats(const StatsFlags& flags);
Result<void> trace(const std::string& file, uint32_t last);
Result<void> stop();

struct ExplainFlags {
  KernelFlags kernel;  // its file may be a key
  std::string emit = "so";
  std::string cache_directory;
  std::string sizes;  // "M=33,N=4099,K=1023": which config such a launch takes
};
Result<void> explain(const ExplainFlags& flags);
Result<void> explain_config(const ExplainFlags& flags);

struct ReproduceFlags {
  std::string key;  // or its first digits
  std::string worker, output, cache_directory;
};
Result<void> reproduce(const ReproduceFlags& flags);

struct BundleFlags {
  std::string file;
  std::vector<std::string> kernels;  // names; empty: all
  std::string cache_directory;
  std::string key_file;  // of the secret that authenticates it; empty: none
  bool trust = false;    // imported without
};
Result<void> export_bundle(const BundleFlags& flags);
Result<void> import_bundle(const BundleFlags& flags);

struct ModelBundleFlags {
  std::string file;  // .kg or .pt2
  std::string output;
  std::vector<std::string> targets = {"cpu"};
  std::string weights = "inside";  // or "beside"
  std::string key_file;            // of the secret that authenticates it; empty: none
  uint32_t deadline_ms = 0;
};
Result<void> bundle_model(const ModelBundleFlags& flags);

struct TopFlags {
  double interval = 1;  // seconds
  int count = 0;        // 0: until interrupted
};
Result<void> top(const TopFlags& flags);

struct ProfileFlags {
  std::string trace;  // a file; empty: none
  bool no_summary = false, device_times = false, roofline = false;
};
// Becomes the program, which KILN_PROFILE tells to profile itself.
Result<void> profile(const ProfileFlags& flags, std::vector<std::string> program);

struct ExecFlags {
  bool latency = false, throughput = false, hardware_threads = false;
  int instances = 0, cores_per_instance = 0;  // 0: by what there is
  int repeat = 1;
  std::vector<int> nodes;  // empty: all
  std::string allocator = "auto";
};
// Runs instances of the program. The status of the first that fails; 0: none did.
Result<int> exec(const ExecFlags& flags, const std::vector<std::string>& program);

// Becomes kiln-tune, which stands beside this program.
Result<void> tune(const std::vector<std::string>& words);

Result<void> cache_list(const std::string& directory);
Result<void> cache_verify(const std::string& directory);
Result<void> cache_clear(const std::string& directory);

// The kernel of a file with its config; `cuda` is the device present by then, and `cpu` is still what the daemon says.
Result<dsl::CompileRequest> make_request(const KernelFlags& flags);
// A kernel file, parsed and verified.
Result<dsl::Kernel> load_kernel(const std::string& file);
// Constexprs and schedule options from --set, facts from --facts, a grid from --grid.
Result<dsl::ConstexprValues> parse_sets(const dsl::Kernel& kernel, const std::vector<std::string>& sets);
Result<dsl::Facts> parse_facts(const dsl::Kernel& kernel, const std::string& text);
Result<std::optional<std::array<uint32_t, 3>>> parse_grid(const std::string& text);

// "a, b, c", for messages that say what there is.
std::string join(const std::vector<std::string>& items);
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace kiln::cli
