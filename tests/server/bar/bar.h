// The daemon's bar: 36 statements, each a test that prints its figure (docs/reference/service.md, "The bar"). By
// default the counts are short; KILN_SOAK=1 asks for those of the statement, KILN_SOAK=0.1 for a tenth of them.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fake_bytes.h"
#include "kiln/wire/json.h"
#include "service_fixture.h"

namespace kiln::service_test {

inline double soak_share() {
  const char* text = std::getenv("KILN_SOAK");
  return text ? std::atof(text) : 0;
}

// Times are printed always and judged only with the counts of the statement, on a machine that has nothing else to do.
inline bool times_are_judged() { return soak_share() > 0; }

inline int count(int brief, int full) { return std::max(brief, static_cast<int>(soak_share() * full)); }

inline std::chrono::milliseconds duration(std::chrono::milliseconds brief, std::chrono::milliseconds full) {
  return std::chrono::milliseconds(count(static_cast<int>(brief.count()), static_cast<int>(full.count())));
}

inline void judge_time(const char* what, double value, double bound) {
  if (times_are_judged() && !kSanitized) {
    EXPECT_LE(value, bound) << what;
  }
}

// One line of the test's output, in printf's form.
template <class... Values>
void figure(int statement, const char* format, Values... values) {
  std::printf("[ FIGURE ] %2d: ", statement);
  std::printf(format, values...);
  std::printf("\n");
  std::fflush(stdout);
}

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The sample below which this share of all lies.
inline double percentile(std::vector<double> samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1))];
}

class Bar : public ServiceTest {
 protected:
  // A compile of the fake worker, checked against what it must give. An error is the caller's to judge.
  enum class Answer { kRight, kWrong, kError };
  static Answer judge(const Result<Artifact>& artifact, const std::string& salt, uint64_t size) {
    if (!artifact) return Answer::kError;
    return artifact->code == fake_bytes(salt, size) ? Answer::kRight : Answer::kWrong;
  }
  // Microseconds of lookups of order("bytes"), which there is.
  std::vector<double> hit_times(int hits) {
    auto daemon = connect();
    std::vector<double> out;
    for (int i = 0; i < hits; ++i) {
      Stopwatch took;
      EXPECT_TRUE(daemon->fetch(order("bytes")));
      out.push_back(took.ms() * 1000);
    }
    return out;
  }
  // Every line of a log must be an object.
  std::vector<nlohmann::json> log_lines(const std::string& name) const {
    std::ifstream file(runtime() + "/" + name);
    std::vector<nlohmann::json> out;
    for (std::string line; std::getline(file, line);) {
      auto object = wire::parse_object(line);
      if (object) out.push_back(*object);
      EXPECT_TRUE(object && object->contains("time") && object->contains("event")) << line;
    }
    return out;
  }
  // Daemons that clients or shells started are nobody's children here.
  void shut_down_what_runs() const {
    auto left = Connection::open(options());
    if (left) {
      EXPECT_TRUE((*left)->shutdown());
    }
  }
  void kill_daemon() {
    daemon_.signal(SIGKILL);
    ASSERT_GE(daemon_.wait(), 0);
  }
};

}  // namespace kiln::service_test
