// A runner without a device, for tests of the tuner's end of the protocol (docs/reference/runner.md). What a candidate
// does is in its config:
//
//   behave = 0: fine          4: crashes in load       8: garbage in measure       12: its device is lost in measure
//            1: wrong result  5: hangs in load         9: a line without end       13: exits in measure
//            2: no resources  6: crashes in measure   10: a long wait in load      14: chatters in measure, for ever
//            3: not loadable  7: hangs in measure     11: its device is lost in load
//           15: complains in measure, megabytes of it, and crashes
//           16: answers measure by lists very deep in each other
//   us = N: its time
//
// The environment: KILN_FAKE_RUNNER_NOISE=SEED multiplies times by log-normal noise (5 %) and makes one in 20 an
// outlier; KILN_FAKE_RUNNER_SICK=N lets it die in every load while the file KILN_FAKE_RUNNER_COUNT has fewer than N
// lines; KILN_FAKE_RUNNER_HELLO=TEXT is its greeting, KILN_FAKE_RUNNER_GREETS_AFTER=MS when it greets;
// KILN_FAKE_RUNNER_LAUNCH=MS is how long the process takes for each launch that is measured, whatever time it says;
// KILN_FAKE_RUNNER_HOLD=FILE lets launches of configs with a `us` other than the default's, 100, wait while there is
// such a file. KILN_FAKE_RUNNER_SAYS=TEXT stands behind its device's name and its complaints. Each process adds a line
// to KILN_FAKE_RUNNER_COUNT: "started PID ARGUMENTS", each kernel one to KILN_FAKE_RUNNER_KERNELS, each launch one to
// KILN_FAKE_RUNNER_LOG: "load 3", "measure 3", and each measured config one to KILN_FAKE_RUNNER_CONFIGS:
// "8 behave=0,us=40", behind the value of the kernel's second parameter.
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <random>

#include "kiln/autotune/runner_protocol.h"

namespace {

using kiln::autotune::write_line;
using nlohmann::json;

constexpr double kDefaultUs = 100, kNoUs = 1;  // of the tests' kernel; of one that says nothing

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void note(const char* variable, const std::string& line) {
  const std::string path = environment(variable);
  if (!path.empty()) std::ofstream(path, std::ios::app) << line << std::endl;
}

int count_lines(const std::string& path) {
  std::ifstream file(path);
  int out = 0;
  for (std::string line; std::getline(file, line);) ++out;
  return out;
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

void sleep_for(const char* variable) {
  ::usleep(static_cast<useconds_t>(1000 * std::strtoul(environment(variable).c_str(), nullptr, 10)));
}

void wait_while_held(double us) {
  const std::string file = environment("KILN_FAKE_RUNNER_HOLD");
  const pid_t tuner = ::getppid();
  while (!file.empty() && us != kDefaultUs && us != kNoUs && ::access(file.c_str(), F_OK) == 0) {
    if (::getppid() != tuner) std::exit(0);
    ::usleep(5000);
  }
}

// The same words in all that it says of itself.
std::string says() { return environment("KILN_FAKE_RUNNER_SAYS"); }

[[noreturn]] void crash() {
  std::cerr << "something is wrong" << says() << std::endl;
  ::signal(SIGSEGV, SIG_DFL);
  ::raise(SIGSEGV);
  std::abort();
}

class FakeRunner {
 public:
  bool answer(const json& request) {
    id_ = request.at("id");
    const std::string name = request.at("request");
    if (name == "begin") begin(request);
    if (name == "load") return load(request);
    if (name == "measure") return measure(request);
    if (name == "begin") note("KILN_FAKE_RUNNER_KERNELS", name);
    return reply(json::object());
  }

 private:
  struct Candidate {
    int behave = 0;
    double us = kNoUs;
    std::string name = {};
  };

  void begin(const json& request) {
    const json arguments = request.at("workload").at("arguments");
    shape_ = arguments.size() > 1 ? arguments[1].value("bits", json(0)).dump() : "";
  }

  bool reply(json body, bool lost = false) {
    json message = {{"id", id_}, {"reply", std::move(body)}, {"unknown", "is ignored"}};
    if (lost) message["device_lost"] = true;
    (void)write_line(1, message);
    return !lost;
  }
  bool status(const char* failure, const std::string& message, bool lost = false) {
    return reply({{"failure", failure}, {"message", message}}, lost);
  }

  bool load(const json& request) {
    const uint32_t number = request.at("candidate");
    note("KILN_FAKE_RUNNER_LOG", "load " + std::to_string(number));
    const json config = request.at("config");
    const Candidate candidate{config.value("behave", 0), config.value("us", kNoUs),
                              shape_ + " " + kiln::autotune::to_string(config.get<kiln::autotune::Config>())};
    const std::string sick = environment("KILN_FAKE_RUNNER_SICK");
    if (!sick.empty() && count_lines(environment("KILN_FAKE_RUNNER_COUNT")) < std::stoi(sick)) crash();
    switch (candidate.behave) {
      case 1:
        return status("wrong_result", "array `y`: 3 of 8 elements differ");
      case 2:
        return status("resources", "too many registers" + says());
      case 3:
        return status("compile", "no symbol");
      case 4:
        crash();
      case 5:
        hang();
      case 10:
        for (int i = 0; i < 12; ++i) {
          (void)write_line(1, {{"id", id_}, {"waiting", true}});
          ::usleep(100'000);
        }
        break;
      case 11:
        return status("crash", "illegal address", true);
      default:
        break;
    }
    candidates_[number] = candidate;
    return status("none", "");
  }

  bool measure(const json& request) {
    json times = json::array(), failures = json::array();
    for (const json& number : request.at("candidates")) {
      const Candidate candidate = candidates_.at(number);
      note("KILN_FAKE_RUNNER_LOG", "measure " + number.dump());
      if (candidate.name.find("us=") != std::string::npos) note("KILN_FAKE_RUNNER_CONFIGS", candidate.name);
      (void)write_line(1, {{"id", id_}, {"running", number}});
      if (candidate.behave == 6) crash();
      if (candidate.behave == 7) hang();
      if (candidate.behave == 8) std::cout << "{]" << std::endl;
      if (candidate.behave == 9) std::cout << std::string(2u << 20, 'x') << std::flush;
      if (candidate.behave == 13) std::exit(7);
      if (candidate.behave == 16) {
        const std::string open(300'000, '['), closed(300'000, ']');
        std::cout << "{\"id\":" << id_ << ",\"reply\":" << open << closed << "}" << std::endl;
      }
      while (candidate.behave == 14) {
        for (const char* kind : {"running", "progress"}) (void)write_line(1, {{"id", id_}, {kind, number}});
        ::usleep(1000);
      }
      if (candidate.behave == 15) {
        std::cerr << "it begins" << std::string(3u << 20, '.') << std::endl;
        crash();
      }
      sleep_for("KILN_FAKE_RUNNER_LAUNCH");
      wait_while_held(candidate.us);
      if (candidate.behave == 12) {
        times.push_back(nullptr);
        failures.push_back({{"candidate", number}, {"failure", "crash"}, {"message", "illegal address"}});
        return reply({{"us", times}, {"failures", failures}}, true);
      }
      times.push_back(candidate.us * noise());
    }
    return reply({{"us", times}, {"failures", failures}});
  }

  double noise() {
    if (!noisy_) return 1;
    std::normal_distribution<double> normal(0, 0.05);
    const double outlier = random_() % 20 == 0 ? 1.5 + static_cast<double>(random_() % 8) : 1;
    return std::exp(normal(random_)) * outlier;
  }

  json id_;
  std::string shape_;
  std::map<uint32_t, Candidate> candidates_;
  const bool noisy_ = !environment("KILN_FAKE_RUNNER_NOISE").empty();
  std::mt19937_64 random_{std::strtoull(environment("KILN_FAKE_RUNNER_NOISE").c_str(), nullptr, 10)};
};

}  // namespace

int main(int argc, char** argv) {
  std::string started = "started " + std::to_string(::getpid());
  for (int i = 1; i < argc; ++i) started += std::string(" ") + argv[i];
  note("KILN_FAKE_RUNNER_COUNT", started);
  sleep_for("KILN_FAKE_RUNNER_GREETS_AFTER");
  const bool first_device = started.find("--device") == std::string::npos || started.find("--device 0") != started.npos;
  const std::string hello = environment("KILN_FAKE_RUNNER_HELLO");
  if (!hello.empty()) {
    std::cout << hello << std::endl;
  } else {
    (void)write_line(1, kiln::autotune::hello_of(
                            {"cpu", "a fake", (first_device ? "fake device" : "another fake device") + says(), 1}));
  }
  FakeRunner runner;
  for (std::string line; std::getline(std::cin, line);) {
    if (!runner.answer(json::parse(line))) return 0;
  }
}
