// A tuner for tests of the daemon and the client: answers from the environment, KILN_FAKE_TUNER, words apart by blanks:
//   config BLOCK=512   what it says in the end, of a kernel that has it in its space; else and until then: the default
//   chosen BLOCK=512   what it chooses where nobody tunes; `vary`: of the kernel's first axis the next value each time
//   delay MS           how long tuning takes
//   until FILE         … and that it lasts until there is this file
//   crash              dies at the first request that waits
//   log FILE           a line a request
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"

namespace {

struct Orders {
  std::map<std::string, int64_t> config, chosen;
  bool vary = false;
  std::chrono::milliseconds delay{0};
  bool crash = false;
  std::string until, log;
};

Orders read_orders() {
  Orders out;
  const char* text = std::getenv("KILN_FAKE_TUNER");
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    std::string value;
    if (word == "crash") {
      out.crash = true;
    } else if (word == "vary") {
      out.vary = true;
    } else if (words >> value; word == "delay") {
      out.delay = std::chrono::milliseconds(std::stoi(value));
    } else if (word == "until") {
      out.until = value;
    } else if (word == "log") {
      out.log = value;
    } else {
      (word == "chosen" ? out.chosen : out.config)[value.substr(0, value.find('='))] =
          std::stoll(value.substr(value.find('=') + 1));
    }
  }
  return out;
}

// Of an axis that CPUs have of their own the values count, of others the names.
bool may_have(const kiln::dsl::Kernel& kernel, const std::string& name, int64_t value) {
  bool is_axis = false;
  for (const kiln::dsl::SpaceAxis& axis : kernel.space) {
    if (axis.name != name) continue;
    if (axis.target == "cpu") return std::ranges::find(axis.values, value) != axis.values.end();
    is_axis = true;
  }
  return is_axis;
}

kiln::Result<kiln::wire::Tuned> answer(const Orders& orders, const kiln::wire::Frame& frame,
                                       const kiln::wire::TuneHeader& header) {
  auto body = kiln::wire::split_compile_body(frame.body);
  if (!body) return body.error();
  auto request = kiln::dsl::decode_request(body->canonical, body->debug);
  if (!request) return request.error();
  kiln::wire::Tuned out{.config = request->constexprs, .source = "default", .final = false};
  if (!header.wait && !header.choose) return out;
  if (orders.crash) std::abort();
  std::this_thread::sleep_for(orders.delay);
  const pid_t daemon = ::getppid();
  while (!orders.until.empty() && ::access(orders.until.c_str(), F_OK) != 0) {
    if (::getppid() != daemon) std::exit(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (header.choose) {
    static size_t answers = 0;
    const auto& space = request->kernel.space;
    out.final = true;
    out.source = "predicted";
    for (const auto& [name, value] : orders.chosen) out.config[name] = value;
    if (orders.vary) out.config[space.front().name] = space.front().values[answers++ % space.front().values.size()];
    return out;
  }
  for (const auto& [name, value] : orders.config) {
    if (may_have(request->kernel, name, value)) out.config[name] = value;
  }
  out.source = "tuned";
  out.final = true;
  return out;
}

}  // namespace

int main() {
  const Orders orders = read_orders();
  kiln::wire::Channel channel{kiln::wire::UniqueFd(3)};
  while (auto frame = channel.read()) {
    if (frame->type() != kiln::wire::Type::kTune) continue;
    auto header = kiln::wire::parse_tune_header(frame->json);
    if (!header) return 1;
    if (!orders.log.empty()) std::ofstream(orders.log, std::ios::app) << frame->json << "\n";
    auto tuned = answer(orders, *frame, *header);
    const std::string json = tuned ? kiln::wire::to_text(*tuned) : kiln::wire::to_text(tuned.error());
    const auto type = tuned ? kiln::wire::Type::kTuned : kiln::wire::Type::kError;
    if (!channel.write({.type = type, .request_id = frame->id(), .json = json})) return 1;
  }
}
