// Latency and rate of hits against a daemon of its own. Run by hand; the figures mean something on an idle machine.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <thread>

#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using Micro = std::chrono::duration<double, std::micro>;

void report(const char* name, std::vector<double> samples) {
  if (samples.empty()) return;
  std::sort(samples.begin(), samples.end());
  auto at = [&](double share) { return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1))]; };
  std::printf("%-28s p50 %8.1f us   p99 %8.1f us   n %zu\n", name, at(0.5), at(0.99), samples.size());
}

double timed(const std::function<bool()>& call) {
  auto begin = std::chrono::steady_clock::now();
  bool ok = call();
  double took = Micro(std::chrono::steady_clock::now() - begin).count();
  if (!ok) std::printf("a request failed\n");
  return took;
}

struct Bench {
  TempDir temp;
  DaemonProcess daemon;

  bool start() {
    return daemon.start(temp / "run", {"--cache-dir", temp / "cache", "--worker", KILN_TEST_WORKER}) == "ready";
  }
  std::unique_ptr<Connection> connect() {
    ConnectOptions options;
    options.runtime_dir = temp / "run";
    options.kilnd_path = KILN_TEST_KILND;
    options.autostart = false;
    return std::move(Connection::open(options).value());
  }
};

void latencies(Bench& bench, const char* name, uint64_t size) {
  const int entries = size > 500'000 ? 50 : 500;
  auto connection = bench.connect();
  std::vector<RequestKey> keys;
  std::vector<double> cold, memory, disk;
  for (int i = 0; i < entries; ++i) {
    auto request = order("bytes", size, std::string(name) + std::to_string(i));
    keys.push_back(connection->key_of(request));
    cold.push_back(timed([&] { return connection->fetch(request).ok(); }));
  }
  for (int round = 0; round < 20; ++round) {
    for (const auto& key : keys) memory.push_back(timed([&] { return connection->get(key).ok(); }));
  }
  connection.reset();
  bench.daemon.kill_now();
  if (!bench.start()) return;
  connection = bench.connect();
  for (const auto& key : keys) disk.push_back(timed([&] { return connection->get(key).ok(); }));
  std::printf("%s\n", name);
  report("  miss (fake compile)", cold);
  report("  hit, memory", memory);
  report("  hit, disk", disk);
}

void rate(Bench& bench, int clients) {
  auto request = order("bytes", 8u << 10, "rate");
  if (!bench.connect()->fetch(request)) return;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      auto connection = bench.connect();
      RequestKey key = connection->key_of(request);
      while (!stop) hits += connection->get(key).ok() ? 1 : 0;
    });
  }
  std::this_thread::sleep_for(1s);
  uint64_t before = hits;
  auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(3s);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%2d clients                   %.0f hits/s\n", clients, static_cast<double>(hits - before) / seconds);
  stop = true;
  for (auto& thread : threads) thread.join();
}

void start_up() {
  std::vector<double> cold;
  for (int i = 0; i < 20; ++i) {
    Bench bench;
    cold.push_back(timed([&] { return bench.start(); }));
  }
  report("daemon start to ready", cold);
}

}  // namespace
}  // namespace kiln::service_test

int main() {
  using namespace kiln::service_test;
  start_up();
  Bench bench;
  if (!bench.start()) return 1;
  latencies(bench, "8 KiB artifacts", 8u << 10);
  latencies(bench, "64 KiB artifacts", 64u << 10);
  latencies(bench, "1 MiB artifacts", 1u << 20);
  for (int clients : {1, 4, 16}) rate(bench, clients);
  return 0;
}
