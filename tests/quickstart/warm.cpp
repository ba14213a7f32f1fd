#include "warm.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "kiln/client/connection.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "machine.h"

namespace kiln::quickstart {

int warm_child(const std::string& runtime_dir, const std::string& target, bool small) {
  client::ConnectOptions options;
  options.runtime_dir = runtime_dir;
  options.autostart = false;
  auto connection = client::Connection::open(options);
  if (!connection) {
    std::fprintf(stderr, "warm requests: %s\n", connection.error().message.c_str());
    return 1;
  }
  const std::string resolved = target == "cpu" ? (*connection)->server().native_target : target;
  for (const Case& test : quickstart_cases(small)) {
    auto request = dsl::encode_request({*test.ir, resolved, config_on(resolved, *test.ir, test.constexprs), {}});
    if (!request) return 1;
    const RequestKey key = (*connection)->key_of(*request);
    std::vector<double> times;
    // A kernel that was refused has no artifact.
    for (int i = 0; i < 201; ++i) {
      const auto start = std::chrono::steady_clock::now();
      if (!(*connection)->get(key)) break;
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    double median = 0;
    if (times.size() == 201) {
      std::nth_element(times.begin(), times.begin() + 100, times.end());
      median = times[100];
    }
    std::printf("%.1f\n", median);
  }
  return 0;
}

std::vector<double> warm_request_us(const std::string& runtime_dir, const std::string& target, bool small,
                                    size_t cases) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return {};
  self[length] = '\0';
  const std::string command =
      "'" + std::string(self) + "' --warm-child '" + runtime_dir + "' '" + target + "'" + (small ? " --small" : "");
  std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  std::vector<double> out;
  double value = 0;
  while (child && std::fscanf(child.get(), "%lf", &value) == 1) out.push_back(value);
  if (out.size() != cases) out.clear();
  return out;
}

}  // namespace kiln::quickstart
