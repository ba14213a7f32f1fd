// What a config costs before anyone runs it: work counted statically, resources that the compiler reported, and a
// roofline of the machine.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kiln/abi/metadata.h"
#include "kiln/autotune/runner.h"

namespace kiln::autotune {

// Counted over all programs of the grid, loops with the workload's trip counts; where a trip count is data, as once.
struct Work {
  double dot_flops = 0;  // multiply-adds of dots count twice
  dsl::ElementType dot_type = dsl::ElementType::kF32;
  double flops = 0;               // all other arithmetic, by element
  double math = 0;                // transcendental functions, by element
  double loaded = 0, stored = 0;  // bytes that programs ask memory for, as often as they do
  double lines = 0;               // the same, counted in whole lines of 64 bytes: what scattered accesses cost
  double jumps = 0;               // pieces of rows that are loaded far from the last piece, in another page
  double compulsory = 0;          // bytes that must move at least once: the arrays that are touched
  double programs = 0;            // of a kernel of two launches (split_k) those of the first that work
  double launches = 1;
  double tile_bytes = 0;      // of a program: the largest sum of tiles that live at once, about
  double register_bytes = 0;  // of a program: the largest tile that a GPU holds in registers as a whole
  double dot_bytes = 0;       // of operands and accumulators, as often as dots read and write them
  double scratch_bytes = 0;   // of tiles that loops carry and scans give, as often as they are read and written
  double steps = 0;           // iterations of loops, and programs: what is paid per piece of work
  bool estimated = false;     // control or addresses depend on data: these figures are expected ones
};
Result<Work> count_work(const dsl::Kernel& kernel, const Config& config, const Workload& workload);

// The machine's roofs, calibrated by a runner with kernels of the library and kept in the records' file.
struct Machine {
  double read_bytes_per_us = 0, copy_bytes_per_us = 0, cache_bytes_per_us = 0;
  double f32_flops_per_us = 0;                          // multiply-adds count twice
  std::map<std::string, double> dot_flops_per_us = {};  // by element type: "f32", "bf16", "i8", …
  double math_per_us = 0;                               // exp of f32
  double launch_us = 0;
  int parallel = 1;  // programs that run at once: threads, or blocks of all multiprocessors
  std::string target;
};
nlohmann::json to_json(const Machine& machine);
Result<Machine> parse_machine(const nlohmann::json& value);

// What a thread of a GPU has in registers of that tile; 0 where the config does not say how many threads there are.
double register_bytes_a_thread(const Machine& machine, const Work& work, const Config& config);

// Whether what a program of an NVIDIA GPU holds has room in its registers, before anything is compiled. Held against
// the assembler's word over configs of the library (tests/autotune/registers.jsonl): what it says fits spills nothing,
// what it says spills does. Of what is between the two only the assembler knows. Of other targets nothing is known.
enum class Fit : uint8_t { kFits, kUnknown, kSpills };
Fit registers_fit(const Machine& machine, const Work& work, const Config& config);

// What a launch takes of each resource, in microseconds, and what the grid and little in flight make of it.
struct Terms {
  double memory = 0;      // bytes that must move
  double cache = 0;       // bytes that programs ask for, as often as they do, and what spills
  double products = 0;    // of dots
  double operands = 0;    // of dots, read and written again
  double arithmetic = 0;  // all other
  double pieces = 0;      // of a CPU: iterations and programs
  double scratch = 0;     // of a CPU: passes over tiles that it keeps
  double rounds = 0;      // of a GPU: programs one after another, each of which waits for memory and its own threads
  double jumps = 0;       // of a CPU: to rows far apart
  double launch = 0;
  double fill = 1;     // times: programs in the last wave that leave processors idle
  double waiting = 1;  // in cache and products already: too little is in flight
  double uneven = 1;   // times: threads that hold too little of a tile, or too much

  double us() const;
};
// `metadata` of the artifact where it is compiled already: registers, spills, shared memory, waves.
Terms cost_terms(const Machine& machine, const Work& work, const Config& config,
                 const abi::Metadata* metadata = nullptr);
double predict_us(const Machine& machine, const Work& work, const Config& config,
                  const abi::Metadata* metadata = nullptr);
// "products 12.1, memory 3.4, launch 2.7; × 1.3 for the last wave", the largest first.
std::string to_string(const Terms& terms);
// The time below which no measurement can be true, for `compulsory` bytes and flops at twice the roofs.
double possible_us(const Machine& machine, const Work& work);
// The bound that a measurement is shown against, and its name: "memory", "products", "arithmetic", "launch".
struct Roofline {
  double us = 0;
  const char* bound = "";
};
Roofline roofline(const Machine& machine, const Work& work);

// Why a compiled config need not run: does not fit, spills far, …; empty where it may.
std::string prune_reason(const abi::Metadata& metadata);

// Of equal length; 1: the same order.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace kiln::autotune
