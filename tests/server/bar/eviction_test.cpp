// Statement 8, its last part: what eviction costs those who hit meanwhile.
#include <atomic>
#include <thread>

#include "bar.h"

namespace kiln::service_test {
namespace {

// Bytes of an entry that is used again, of one that is not, and of what fills a cache before that.
constexpr uint64_t kKept = 4'000, kPassing = 40'000, kFilling = 1'000'000;

// A daemon of its own with entries that are hit, while another client compiles one new entry after the other.
class Side {
 public:
  Side(const TempDir& temp, const std::string& name, const std::string& cache_size) : runtime_(temp / (name + "-run")) {
    EXPECT_EQ(daemon_.start(runtime_, {"--cache-dir", temp / (name + "-cache"), "--worker", KILN_TEST_WORKER,
                                       "--workers", "1", "--memory-size", "100KiB", "--cache-size", cache_size}),
              "ready");
    hits_ = connect();
    writes_ = connect();
    for (int i = 0; i < 38; ++i) EXPECT_TRUE(hits_->compile(order("bytes", kFilling, "fill" + std::to_string(i))));
    for (int i = 0; i < 100; ++i) {
      const auto request = order("bytes", kKept, "kept" + std::to_string(i));
      EXPECT_TRUE(hits_->compile(request, {.durable = true}));
      keys_.push_back(hits_->key_of(request));
    }
  }

  // Each entry is used about as often, so that none of them is the oldest. Most come from the disk.
  void measure(std::chrono::milliseconds time) {
    std::atomic<bool> stop{false};
    std::jthread writer([&] {
      while (!stop) EXPECT_TRUE(writes_->compile(order("bytes", kPassing, "passing" + std::to_string(passing_++))));
    });
    for (const Stopwatch all; all.ms() < static_cast<double>(time.count());) {
      const Stopwatch took;
      hit();
      times_.push_back(took.ms() * 1000);
    }
    stop = true;
    writer.join();
    // What was compiled may come to the disk later, and would push out what nobody uses meanwhile.
    while (figures_of(*hits_)["store_queue_bytes"] > 0) hit();
  }

  uint64_t evictions() const { return figures_of(*hits_)["evictions_total"]; }
  uint64_t disk_hits() const { return figures_of(*hits_)["hits_total"]["disk"]; }
  double at(double share) const { return percentile(times_, share); }

 private:
  void hit() { EXPECT_TRUE(hits_->get(keys_[next_++ % keys_.size()])); }
  std::unique_ptr<Connection> connect() const {
    ConnectOptions options;
    options.runtime_dir = runtime_;
    options.autostart = options.allow_pipe = false;
    auto out = Connection::open(options);
    EXPECT_TRUE(out) << out.error().message;
    return std::move(*out);
  }

  const std::string runtime_;
  DaemonProcess daemon_;
  std::unique_ptr<Connection> hits_, writes_;
  std::vector<RequestKey> keys_;
  std::vector<double> times_;
  size_t next_ = 0, passing_ = 0;
};

class BarEviction : public Bar {};

TEST_F(BarEviction, Statement08HitsMeanwhile) {
  Side roomy(temp_, "roomy", "4GiB"), tight(temp_, "tight", "40MB");
  const int turns = count(2, 20);
  const auto turn = duration(150ms, 1000ms);
  for (int i = 0; i < turns; ++i) {
    Side& first = i % 2 == 0 ? roomy : tight;
    first.measure(turn);
    (&first == &roomy ? tight : roomy).measure(turn);
  }
  EXPECT_TRUE(eventually([&] {
    tight.measure(turn);
    return tight.evictions() > 0;
  }));
  EXPECT_EQ(roomy.evictions(), 0u);
  EXPECT_GT(tight.disk_hits(), 0u);
  if (times_are_judged()) {
    EXPECT_LE(tight.at(0.99), 2 * roomy.at(0.99));
  }
  figure(
      8,
      "hits while another compiles: p50 %.0f us, p99 %.0f us; with %llu evictions meanwhile p50 %.0f us, p99 %.0f us",
      roomy.at(0.5), roomy.at(0.99), static_cast<unsigned long long>(tight.evictions()), tight.at(0.5), tight.at(0.99));
}

}  // namespace
}  // namespace kiln::service_test
