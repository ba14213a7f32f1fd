#include "warm.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "machine.h"

namespace kiln::quickstart {

int warm_child(const std::string& runtime_dir, const std::string& key_text) {
  RequestKey key;
  if (!parse_hex(key_text, key)) return 2;
  client::ConnectOptions options;
  options.runtime_dir = runtime_dir;
  options.autostart = false;
  auto connection = client::Connection::open(options);
  if (!connection) {
    std::fprintf(stderr, "warm requests: %s\n", connection.error().message.c_str());
    return 1;
  }
  std::vector<double> times;
  for (int i = 0; i < 201; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (auto artifact = (*connection)->get(key); !artifact) {
      std::fprintf(stderr, "warm requests: %s\n", artifact.error().message.c_str());
      return 1;
    }
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 100, times.end());
  std::printf("%.1f\n", times[100]);
  return 0;
}

Result<double> WarmRequests::median_us(const Case& test) const {
  auto request = dsl::encode_request({*test.ir, target, config_on(target, *test.ir, test.constexprs), {}});
  if (!request) return request.error();
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return error(ErrorCode::kInternal, "/proc/self/exe names no file");
  self[length] = '\0';
  const std::string command =
      "'" + std::string(self) + "' --warm-child '" + runtime_dir + "' " + to_hex(connection.key_of(*request));
  std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  double median = 0;
  if (!child || std::fscanf(child.get(), "%lf", &median) != 1) {
    return error(ErrorCode::kInternal, "a second process did not get the artifact");
  }
  return median;
}

}  // namespace kiln::quickstart
