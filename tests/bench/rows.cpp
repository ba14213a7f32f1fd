// The memory-bound and ordering kernels of the quickstart on one thread, by processor time, so that what else the
// machine does matters little: the best of several launches, taken by turns with a plain copy, a copy past the caches
// and a read of large arrays, and with std::sort and std::partial_sort where rows are put into order.
//   bench-rows [substring of kernel and shape…]
// CSV lines area,case,dtype,who,metric,value; then a table of shares of the ceilings.
#include <immintrin.h>
#include <omp.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <random>

#include "kiln/client/connection.h"
#include "quickstart/cases.h"
#include "quickstart/machine.h"

namespace kiln::bench {
namespace {

using quickstart::Case;

constexpr size_t kElements = size_t{1} << 24;
constexpr int kRounds = 7;

double seconds(const std::function<void()>& work) {
  auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

// Rates in GB/s of arrays larger than the caches.
struct Ceilings {
  std::unique_ptr<float[]> memory{new float[2 * kElements + 16]()};
  // The start of a cache line.
  float* from = memory.get() + (64 - reinterpret_cast<uintptr_t>(memory.get()) % 64) % 64 / 4;
  float* to = from + kElements;
  double copy = 0, copy_past = 0, read = 0;

  void measure() {
    const double bytes = 4.0 * kElements;
    copy = std::max(copy, 2 * bytes / seconds([&] {
                            for (size_t i = 0; i < kElements; i += 1024) std::copy_n(from + i, 1024, to + i);
                          }) / 1e9);
    copy_past = std::max(copy_past, 2 * bytes / seconds([&] {
                                      for (size_t i = 0; i < kElements; i += 4)
                                        _mm_stream_ps(to + i, _mm_load_ps(from + i));
                                      _mm_sfence();
                                    }) / 1e9);
    read = std::max(read, bytes / seconds([&] {
                            __m128 sums[8] = {};
                            for (size_t i = 0; i < kElements; i += 32) {
#pragma GCC unroll 8
                              for (size_t k = 0; k < 8; ++k)
                                sums[k] = _mm_add_ps(sums[k], _mm_load_ps(from + i + 4 * k));
                            }
                            volatile float sink = 0;
                            for (const __m128& sum : sums) sink = sink + _mm_cvtss_f32(sum);
                          }) / 1e9);
  }
};

std::vector<int> numbers_in(const std::string& shape) {
  std::vector<int> out;
  int number = -1;
  for (char c : shape + " ") {
    if (c >= '0' && c <= '9') {
      number = std::max(number, 0) * 10 + (c - '0');
    } else if (number >= 0) {
      out.push_back(number);
      number = -1;
    }
  }
  return out;
}

// What the standard library does for the case, on data of its own; empty where it has nothing to compare.
std::function<void()> peer_of(const Case& test) {
  const bool sorts = test.kernel == "sort_rows", selects = test.kernel == "topk";
  if (!sorts && !selects) return {};
  const std::vector<int> shape = numbers_in(test.shape);
  const auto rows = static_cast<size_t>(shape[0]), cols = static_cast<size_t>(shape[1]);
  auto x = std::make_shared<std::vector<float>>(rows * cols);
  std::minstd_rand generator(1);
  for (float& value : *x) value = static_cast<float>(generator());
  return [=] {
    std::vector<float> row(cols);
    std::vector<int> order(cols);
    for (size_t r = 0; r < rows; ++r) {
      const float* from = x->data() + r * cols;
      if (sorts) {
        row.assign(from, from + cols);
        std::sort(row.begin(), row.end());
      } else {
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + shape[2], order.end(),
                          [&](int a, int b) { return from[a] > from[b] || (from[a] == from[b] && a < b); });
      }
    }
  };
}

Result<void> measure(Client& client, const Case& test, Ceilings& ceilings) {
  auto prepared = test.prepare(quickstart::Machine{client, "cpu", {}});
  if (!prepared) return prepared.error();
  if (auto first = prepared->run(); !first) return first.error();
  const auto peer = peer_of(test);
  double ours = 1e9, theirs = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    ours = std::min(ours, seconds([&] { (void)prepared->run(); }));
    if (peer && round < 2) theirs = std::min(theirs, seconds(peer));
    ceilings.measure();
  }
  const double rate = test.bytes / ours / 1e9;
  const double limit = test.reads_only ? ceilings.read : ceilings.copy;
  const std::string name = test.kernel + " " + test.shape;
  std::printf("rows,%s,f32,kiln,ms,%.4f\n", name.c_str(), ours * 1e3);
  if (peer) std::printf("rows,%s,f32,std,ms,%.4f\n", name.c_str(), theirs * 1e3);
  const int extra = static_cast<int>(std::count(name.begin(), name.end(), '\xc3'));  // of "×"
  std::printf("# %-*s %9.3f ms %7.2f GB/s %5.0f %% of plain, %5.0f %% of best%s\n", 44 + extra, name.c_str(),
              ours * 1e3, rate, 100 * rate / limit, 100 * rate / (test.reads_only ? ceilings.read : ceilings.copy_past),
              passes(prepared->check()) ? "" : "  WRONG");
  if (peer) std::printf("#   std: %.3f ms, %.2f of it\n", theirs * 1e3, ours / theirs);
  std::fflush(stdout);
  return {};
}

int run(const std::string& runtime_dir, int count, char** filters) {
  omp_set_num_threads(1);
  client::ConnectOptions connect;
  connect.runtime_dir = runtime_dir;
  connect.daemon_args = {"--cache-dir", runtime_dir + "/cache", "--idle-timeout", "60"};
  auto connection = client::Connection::open(connect);
  if (!connection) {
    std::fprintf(stderr, "bench-rows: %s\n", connection.error().message.c_str());
    return 1;
  }
  Client client({.connect = connect, .specialise_in_background = false});
  Ceilings ceilings;
  ceilings.measure();
  for (const Case& test : quickstart::quickstart_cases(false)) {
    const std::string name = test.kernel + " " + test.shape;
    const bool wanted = std::any_of(filters, filters + count, [&](const char* f) { return name.find(f) != name.npos; });
    if (test.flops > 0 || (count > 0 && !wanted)) continue;
    if (auto done = measure(client, test, ceilings); !done) {
      std::printf("# SKIPPED %s: %s\n", name.c_str(), done.error().message.c_str());
    }
  }
  std::printf("# copy %.1f GB/s, past the caches %.1f GB/s, read %.1f GB/s\n", ceilings.copy, ceilings.copy_past,
              ceilings.read);
  (void)(*connection)->shutdown();
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  char pattern[] = "/tmp/kiln-bench-XXXXXX";
  if (!mkdtemp(pattern)) {
    std::perror("bench-rows: mkdtemp");
    return 1;
  }
  const int status = kiln::bench::run(pattern, argc - 1, argv + 1);
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
  return status;
}
