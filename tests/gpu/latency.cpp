// How long a caller waits for a kernel on a GPU: a daemon of its own with an empty cache, warmed up, is asked for
// kernels that it has never seen, then a second process asks for the same. Medians of several rounds.
//
//   bench-gpu-latency [--cpu] [--rounds N] [--csv FILE]
//
// A round's kernel differs from the others by a constant that nothing reads: its code is the same, its key is not. Each
// kernel is asked for without facts about its arguments, as get() does, and with those of a launch, as prepare() does.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "bench_tools.h"
#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/kernels.h"

namespace kiln {
namespace {

using bench::fail;
using bench::median;
using bench::need;

constexpr int kWarmUp = 1'000'000;  // rounds from here on are not counted
constexpr int kRequests = 201;      // over the socket

// Pointers before numbers, as these kernels have their parameters.
struct Case {
  const char *name, *type;
  dsl::Kernel kernel;
  std::vector<uint64_t> bytes;
  std::vector<int32_t> numbers;
  double wanted_ms;  // to PTX
};

std::vector<Case> all_cases() {
  const auto with_round = [](const Result<dsl::Kernel>& ir) {
    dsl::Kernel kernel = need(ir);
    kernel.constexprs.push_back({"ROUND", 0});
    return kernel;
  };
  constexpr uint64_t kFloats = 4 << 20, kSmall = 2 << 20;
  std::vector<Case> out;
  out.push_back({"add", "f32", with_round(kernels::vector_add<>().ir()), {kFloats, kFloats, kFloats}, {1 << 20}, 15});
  out.push_back({"softmax",
                 "bf16",
                 with_round(kernels::softmax<dsl::lang::bf16>().ir()),
                 {kSmall, kSmall},
                 {1024, 1024, 1024},
                 25});
  out.push_back({"matmul",
                 "bf16",
                 with_round(kernels::matmul<dsl::lang::bf16>().ir()),
                 {kSmall, kSmall, kSmall},
                 {1024, 1024, 1024},
                 60});
  return out;
}

// Where the launches run; absent: this machine's CPU.
using Place = std::optional<Device>;

// The arguments of a case's launches, with the memory behind them.
class Arguments {
 public:
  Arguments(const Place& place, const Case& what) {
    for (const uint64_t bytes : what.bytes) add(place, bytes);
    for (const int32_t number : what.numbers) {
      list_.push_back(client::to_argument(number));
      facts_.push_back(dsl::fact_of_int(number));
    }
  }
  std::span<const client::Argument> list() const { return list_; }
  const dsl::Facts& facts() const { return facts_; }

 private:
  void add(const Place& place, uint64_t bytes) {
    void* data = nullptr;
    if (place) {
      there_.push_back(need(DeviceMemory::allocate(*place, bytes)));
      need(there_.back().fill(0, place->default_stream()));
      data = there_.back().data();
    } else {
      here_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), std::free);
      data = std::memset(here_.back().get(), 0, bytes);
    }
    list_.push_back(client::to_argument(data));
    facts_.push_back(dsl::ParamFact::kAlign16);
  }
  std::vector<DeviceMemory> there_;
  std::vector<std::shared_ptr<std::byte>> here_;
  std::vector<client::Argument> list_;
  dsl::Facts facts_;
};

// Milliseconds, by what they are of.
using Samples = std::map<std::string, std::vector<double>>;

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void launch(const Place& place, const UntypedFunction& function, const Arguments& arguments) {
  need(function.launch(arguments.list()));
  if (place) need(place->default_stream().synchronise());
}

GetOptions options_for(const std::string& target, int round) {
  return {.target = target, .constexprs = {{"ROUND", round}}};
}

// What the compiler says of its time, the assembler's apart.
void add_phases(const abi::Metadata& metadata, const char* prefix, Samples& samples) {
  const double total = static_cast<double>(metadata.phases_us.at("total")) / 1e3;
  double assembler = 0;
  if (metadata.device) assembler = static_cast<double>(metadata.device->assembler_us.value_or(0)) / 1e3;
  samples[prefix + std::string("compile")].push_back(total - assembler);
  samples[prefix + std::string("assembler")].push_back(assembler);
}

// A kernel that nobody has asked for.
void ask_cold(Client& client, const Place& place, const std::string& target, const Case& what,
              const Arguments& arguments, int round, Samples& samples) {
  const Stopwatch whole;
  const UntypedFunction function = need(client.get(what.kernel, options_for(target, round)));
  samples["get"].push_back(whole.ms());
  launch(place, function, arguments);
  samples["first"].push_back(whole.ms());
  if (function.metadata().served_from != "compile") fail("a new kernel was not compiled");
  add_phases(function.metadata(), "", samples);
  const Stopwatch exact;
  need(function.prepare(arguments.list()));
  samples["facts get"].push_back(exact.ms());
  launch(place, function, arguments);
  samples["facts first"].push_back(exact.ms());
  add_phases(function.metadata(arguments.facts()), "facts ", samples);
}

struct WarmTimes {
  double get_ms, launched_ms;  // until the handle is there, and until the kernel has run
};

// The daemon must have it.
WarmTimes ask_warm(Client& client, const Place& place, const std::string& target, const Case& what,
                   const Arguments& arguments, int round, bool with_facts) {
  const Stopwatch whole;
  const UntypedFunction function = need(client.get(what.kernel, options_for(target, round)));
  if (with_facts) need(function.prepare(arguments.list()));
  const double got_ms = whole.ms();
  launch(place, function, arguments);
  const double ms = whole.ms();
  const auto from = function.metadata(with_facts ? arguments.facts() : dsl::Facts()).served_from;
  if (from != "memory" && from != "disk") fail("a known kernel came from `" + from + "`");
  return {got_ms, ms};
}

double request_us(client::Connection& connection, const Case& what, const std::string& target) {
  const auto request = need(dsl::encode_request({what.kernel, target, {{"ROUND", 0}}, {}, "so"}));
  const RequestKey key = connection.key_of(request);
  std::vector<double> times;
  for (int i = 0; i < kRequests; ++i) {
    const Stopwatch one;
    need(connection.get(key));
    times.push_back(one.ms() * 1e3);
  }
  return median(times);
}

client::ConnectOptions daemon_in(const std::string& runtime_dir) {
  client::ConnectOptions out;
  out.runtime_dir = runtime_dir;
  out.client_name = "bench-gpu-latency";
  // A cache of its own: what is asked for first is compiled.
  out.daemon_args = {"--cache-dir", runtime_dir + "/cache", "--idle-timeout", "60"};
  return out;
}

Place place_of(bool cpu) { return cpu ? Place() : Place(need(Device::open("cuda"))); }

// The second process: prints its samples, a line each.
int second_process(const std::string& runtime_dir, const std::string& target, int rounds, bool cpu) {
  const Place place = place_of(cpu);
  client::ConnectOptions connect = daemon_in(runtime_dir);
  connect.autostart = false;
  const auto connection = need(client::Connection::open(connect));
  Client client({.connect = connect, .specialise_in_background = false});
  for (const Case& what : all_cases()) {
    const Arguments arguments(place, what);
    const auto print = [&](const char* metric, double ms) { std::printf("%s %s %.6f\n", what.name, metric, ms); };
    print("first_of_process", ask_warm(client, place, target, what, arguments, kWarmUp, false).launched_ms);
    for (int round = 0; round < rounds; ++round) {
      const WarmTimes generic = ask_warm(client, place, target, what, arguments, round, false);
      print("warm_get", generic.get_ms);
      print("warm", generic.launched_ms);
      print("facts_warm", ask_warm(client, place, target, what, arguments, round, true).launched_ms);
    }
    print("socket", request_us(*connection, what, target) / 1e3);
  }
  return 0;
}

void ask_from_second_process(const std::string& runtime_dir, const std::string& target, int rounds, bool cpu,
                             std::map<std::string, Samples>& samples) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) fail("/proc/self/exe names no file");
  self[length] = '\0';
  const std::string command = "'" + std::string(self) + "' --second '" + runtime_dir + "' '" + target + "' --rounds " +
                              std::to_string(rounds) + (cpu ? " --cpu" : "");
  FILE* child = popen(command.c_str(), "r");
  if (!child) fail("no second process");
  char name[64], metric[64];
  double ms = 0;
  while (std::fscanf(child, "%63s %63s %lf", name, metric, &ms) == 3) samples[name][metric].push_back(ms);
  if (pclose(child) != 0) fail("the second process failed");
}

void print_table(const std::vector<Case>& cases, const std::map<std::string, Samples>& samples) {
  std::printf("\nCold, ms                     to PTX  wanted  assembler  get()  first result\n");
  for (const Case& what : cases) {
    const Samples& of = samples.at(what.name);
    const auto at = [&](const std::string& metric) { return median(of.at(metric)); };
    for (const std::string prefix : {"", "facts "}) {
      const std::string name = std::string(what.name) + " " + what.type + (prefix.empty() ? "" : ", facts");
      std::printf("%-27s %7.2f %7.0f %10.2f %6.2f %13.2f%s\n", name.c_str(), at(prefix + "compile"), what.wanted_ms,
                  at(prefix + "assembler"), at(prefix + "get"), at(prefix + "first"),
                  at(prefix + "compile") <= what.wanted_ms ? "" : "  <<<");
    }
  }
  std::printf(
      "\nWarm, second process     socket, us (100 wanted)  get + launch, ms (1 wanted)  get alone  with facts  "
      "first of process\n");
  for (const Case& what : cases) {
    const Samples& of = samples.at(what.name);
    const auto at = [&](const std::string& metric) { return median(of.at(metric)); };
    const std::string name = std::string(what.name) + " " + what.type;
    std::printf("%-27s %21.1f %28.3f %10.3f %11.3f %17.3f%s\n", name.c_str(), at("socket") * 1e3, at("warm"),
                at("warm_get"), at("facts_warm"), at("first_of_process"),
                at("socket") <= 0.1 && at("warm") <= 1 ? "" : "  <<<");
  }
}

void write_csv(const std::string& path, const std::vector<Case>& cases, const std::map<std::string, Samples>& samples) {
  std::ofstream file(path);
  for (const Case& what : cases) {
    for (const auto& [metric, values] : samples.at(what.name)) {
      std::string name = metric;
      std::replace(name.begin(), name.end(), ' ', '_');
      file << "latency," << what.name << ',' << what.type << ",kiln," << name << "_ms," << median(values) << '\n';
    }
  }
  if (!file.flush()) fail("cannot write " + path);
}

void measure(const std::string& runtime_dir, int rounds, bool cpu, const std::string& csv) {
  const Place place = place_of(cpu);
  const client::ConnectOptions connect = daemon_in(runtime_dir);
  const auto connection = need(client::Connection::open(connect));
  const std::string target = cpu ? connection->server().native_target : place->info().target;
  std::printf("%s, %d rounds\n", place ? (place->info().name + ", " + target).c_str() : "this machine's CPU", rounds);
  // Background compiles would run beside the measurements.
  Client client({.connect = connect, .specialise_in_background = false});
  const std::vector<Case> cases = all_cases();
  std::vector<Arguments> arguments;
  for (const Case& what : cases) arguments.emplace_back(place, what);
  std::map<std::string, Samples> samples;
  for (int round = -2; round < rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      Samples ignored;
      Samples& into = round < 0 ? ignored : samples[cases[i].name];
      ask_cold(client, place, target, cases[i], arguments[i], round < 0 ? kWarmUp + 2 + round : round, into);
    }
  }
  ask_from_second_process(runtime_dir, target, rounds, cpu, samples);
  print_table(cases, samples);
  if (!csv.empty()) write_csv(csv, cases, samples);
  (void)connection->shutdown();
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  bool cpu = false;
  int rounds = 9;
  std::string csv, second_of, target;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--cpu") == 0) {
      cpu = true;
    } else if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--csv") == 0 && i + 1 < argc) {
      csv = argv[++i];
    } else if (std::strcmp(argv[i], "--second") == 0 && i + 2 < argc) {
      second_of = argv[++i];
      target = argv[++i];
    } else {
      std::fprintf(stderr, "usage: bench-gpu-latency [--cpu] [--rounds N] [--csv FILE]\n");
      return 2;
    }
  }
  if (!second_of.empty()) return kiln::second_process(second_of, target, rounds, cpu);
  char pattern[] = "/tmp/kiln-latency-XXXXXX";
  if (!mkdtemp(pattern)) {
    std::perror("bench-gpu-latency: mkdtemp");
    return 1;
  }
  // What fails ends the process; the folder goes all the same.
  static std::string folder;
  folder = pattern;
  std::atexit([] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  });
  kiln::measure(folder, rounds, cpu, csv);
  return 0;
}
