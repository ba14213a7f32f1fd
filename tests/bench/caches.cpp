// What a hit and a miss cost here and in other caches, on one machine, in turns:
//
// - kiln: GET of an entry by its key, from memory; a miss is a COMPILE of a kernel that nobody has, by the real worker.
// - ccache: the program, for a trivial C file, its direct hit; a miss is a file that nobody has.
// - sccache: likewise, with its server running.
// - Redis: GET over a Unix socket of a value as large as Kiln's entry; a miss is a GET of a name that is not there.
// - memcached: likewise.
//
// A compile cache is asked by starting its program; a daemon's client asks by a socket. What is not installed is left
// out, with a reason. Prints `service,case,-,who,metric,value` lines and a table.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>

#include "kiln/client/connection.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"
#include "kiln/redis/link.h"
#include "kiln/wire/process.h"
#include "kiln/wire/trusted.h"
#include "redis/redis_process.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using redis_test::RedisProcess;
using redis_test::shell;
using Clock = std::chrono::steady_clock;

struct Peer {
  std::string name;
  std::function<bool()> hit, miss;
  int hits = 1, misses = 1;  // a round
  std::vector<double> hit_us = {}, miss_us = {};
};

bool installed(const std::string& program) { return shell("command -v " + program) == 0; }

// False, with a word to the user, where an answer is wrong.
bool time_calls(const std::function<bool()>& call, int times, std::vector<double>& out, const std::string& who) {
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    const bool ok = call();
    out.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    if (!ok) {
      std::fprintf(stderr, "%s gave a wrong answer\n", who.c_str());
      return false;
    }
  }
  return true;
}

bool time_rounds(std::vector<Peer>& peers, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Peer& peer : peers) {
      const bool right = time_calls(peer.hit, peer.hits, peer.hit_us, peer.name) &&
                         time_calls(peer.miss, peer.misses, peer.miss_us, peer.name);
      if (!right) return false;
    }
  }
  return true;
}

double at(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1))];
}

// ---- Kiln: a daemon and the real worker

class Kiln {
 public:
  explicit Kiln(const TempDir& temp) {
    if (daemon_.start(temp / "run", {"--cache-dir", temp / "cache", "--worker", KILN_REAL_WORKER}) != "ready") return;
    client::ConnectOptions options;
    options.runtime_dir = temp / "run";
    options.autostart = options.allow_pipe = false;
    auto opened = Connection::open(options);
    if (!opened) return;
    connection_ = std::move(*opened);
    auto artifact = connection_->compile(request(0));
    if (artifact) size_ = artifact->code.size();
  }
  bool ready() const { return size_ > 0; }
  size_t size() const { return size_; }
  Peer peer() {
    const RequestKey key = connection_->key_of(request(0));
    return {"kiln", [this, key] { return connection_->get(key).ok(); },
            [this] { return connection_->compile(request(++number_)).ok(); }, 200, 1};
  }

 private:
  // The constant makes it another kernel, of the same size.
  RequestBytes request(int number) const {
    const std::string text = "kernel trivial(%x: ptr<f32>) {\n  grid [1, 1, 1]\n  %c = constant {value = " +
                             std::to_string(1'000'000 + number) +
                             ", type = i32} : i32\n  %f = cast %c {to = f32} : f32\n  store %x, %f\n}\n";
    auto kernel = dsl::parse(text, "trivial.kiln");
    dsl::CompileRequest out;
    out.kernel = std::move(*kernel);
    out.target = connection_->server().native_target;
    return *dsl::encode_request(out);
  }

  DaemonProcess daemon_;
  std::unique_ptr<Connection> connection_;
  size_t size_ = 0;
  int number_ = 0;
};

// ---- compile caches: programs before the compiler

// Of a name in PATH, which is not looked for where it is started.
std::string program_of(const std::string& name) {
  auto found = wire::find_program(name);
  return found ? *found : name;
}

bool run(const std::vector<std::string>& command, const std::vector<std::string>& more_environment) {
  wire::Program program{.command = command};
  program.environment.emplace();
  for (char** each = environ; *each; ++each) program.environment->push_back(*each);
  for (const auto& each : more_environment) program.environment->push_back(each);
  program.descriptors = {{.number = 1, .path = "/dev/null", .flags = O_WRONLY},
                         {.number = 2, .path = "/dev/null", .flags = O_WRONLY}};
  auto pid = wire::spawn(program);
  int status = -1;
  return pid && ::waitpid(*pid, &status, 0) == *pid && status == 0;
}

Peer compile_cache(const std::string& name, const TempDir& temp, const std::vector<std::string>& environment) {
  auto write = [&temp, name](int number) {
    const std::string file = temp / (name + std::to_string(number) + ".c");
    std::ofstream(file) << "int f(int x) { return x + " << number << "; }\n";
    return file;
  };
  auto compile = [=, &temp](const std::string& file) {
    return run({program_of(name), "cc", "-O2", "-c", file, "-o", temp / (name + ".o")}, environment);
  };
  const std::string known = write(0);
  (void)compile(known);  // into the cache
  auto number = std::make_shared<int>(0);
  return {name, [=] { return compile(known); }, [=] { return compile(write(++*number)); }};
}

// The hits that a cache has counted: one that is disabled would run the compiler each time, and be timed all the same.
int hits_counted(const std::string& command, const std::string& label) {
  int hits = 0;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return 0;
  for (char line[512]; std::fgets(line, sizeof line, pipe);) {
    const std::string text = line;
    if (text.starts_with(label)) hits = std::max(hits, std::atoi(text.c_str() + label.size()));
  }
  ::pclose(pipe);
  return hits;
}

// ---- stores

Peer redis_peer(const RedisProcess& redis, const redis::Access& access, const std::string& value) {
  auto link = std::make_shared<redis::Link>(*redis::parse_address(redis.url()), access);
  (void)link->set("known", std::as_bytes(std::span(value)));
  return {"redis",
          [=] {
            auto reply = link->get("known");
            return reply.value && reply.value->size() == value.size();
          },
          [=] {
            auto reply = link->get("unknown");
            return !reply.failure && !reply.value;
          },
          200, 200};
}

// The text protocol: "get NAME" is answered by "VALUE …", the bytes and "END".
class Memcached {
 public:
  explicit Memcached(const TempDir& temp) : path_(temp / "memcached.sock") {
    std::vector<std::string> command = {program_of("memcached"), "-s", path_, "-m", "64"};
    if (::geteuid() == 0) command.insert(command.end(), {"-u", "root"});  // which may use this directory
    auto pid = wire::spawn({.command = command});
    if (pid) pid_ = *pid;
    for (int i = 0; i < 200 && !connect(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ~Memcached() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Peer peer(const std::string& value) {
    (void)ask("set known 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n", "STORED\r\n");
    return {"memcached", [this, size = value.size()] { return ask("get known\r\n", "END\r\n") > size; },
            [this] { return ask("get unknown\r\n", "END\r\n") == 5; }, 200, 200};
  }

 private:
  bool connect() {
    socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path_.copy(name.sun_path, sizeof name.sun_path - 1);
    return ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
  }
  // How many bytes came until `end`.
  size_t ask(const std::string& words, const std::string& end) {
    if (::send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0) return 0;
    std::string reply;
    char buffer[65536];
    while (!reply.ends_with(end)) {
      const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (count <= 0) return 0;
      reply.append(buffer, static_cast<size_t>(count));
    }
    return reply.size();
  }

  const std::string path_;
  pid_t pid_ = -1;
  wire::UniqueFd socket_;
};

// ---- the table

std::string ratio(double value, double ours) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1fx", value / ours);
  return text;
}

void print(const std::vector<Peer>& peers, size_t size) {
  for (const Peer& peer : peers) {
    for (const auto& [name, times] : {std::pair("hit", &peer.hit_us), std::pair("miss", &peer.miss_us)}) {
      std::printf("service,%s,-,%s,p50_us,%.1f\n", name, peer.name.c_str(), at(*times, 0.5));
      std::printf("service,%s,-,%s,p99_us,%.1f\n", name, peer.name.c_str(), at(*times, 0.99));
    }
  }
  const Peer& ours = peers.front();
  std::printf("\nmicroseconds, entries of %zu bytes\n\n", size);
  std::printf("| | hit p50 | p99 | to kiln's | miss p50 | p99 | to kiln's |\n|---|---|---|---|---|---|---|\n");
  for (const Peer& peer : peers) {
    const double hit = at(peer.hit_us, 0.5), miss = at(peer.miss_us, 0.5);
    std::printf("| %s | %.1f | %.1f | %s | %.1f | %.1f | %s |\n", peer.name.c_str(), hit, at(peer.hit_us, 0.99),
                ratio(hit, at(ours.hit_us, 0.5)).c_str(), miss, at(peer.miss_us, 0.99),
                ratio(miss, at(ours.miss_us, 0.5)).c_str());
  }
}

int main_of(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 50;
  TempDir temp;
  Kiln kiln(temp);
  if (!kiln.ready()) {
    std::fprintf(stderr, "the daemon does not compile\n");
    return 1;
  }
  const std::string value(kiln.size(), 'v');
  std::vector<Peer> peers = {kiln.peer()};
  auto skip = [](const char* name) { std::fprintf(stderr, "%s is left out: it is not installed\n", name); };
  const std::vector<std::string> ccache = {"CCACHE_DIR=" + (temp / "ccache")};
  if (installed("ccache"))
    peers.push_back(compile_cache("ccache", temp, ccache));
  else
    skip("ccache");
  const std::vector<std::string> sccache = {"SCCACHE_DIR=" + (temp / "sccache"), "SCCACHE_SERVER_PORT=42267"};
  if (installed("sccache"))
    peers.push_back(compile_cache("sccache", temp, sccache));
  else
    skip("sccache");
  const redis::Access access;
  std::unique_ptr<RedisProcess> redis;
  if (redis_test::redis_installed()) {
    redis = std::make_unique<RedisProcess>(temp.path());
    peers.push_back(redis_peer(*redis, access, value));
  } else {
    skip("redis-server");
  }
  std::unique_ptr<Memcached> memcached;
  if (installed("memcached")) {
    memcached = std::make_unique<Memcached>(temp);
    peers.push_back(memcached->peer(value));
  } else {
    skip("memcached");
  }
  const bool right = time_rounds(peers, rounds);
  bool from_caches = true;
  auto judge_hits = [&](const std::string& name, const std::string& command, const std::string& label) {
    const int hits = installed(name) ? hits_counted(command, label) : rounds;
    if (hits >= rounds) return;
    std::fprintf(stderr, "%s counts %d hits, of %d that were timed\n", name.c_str(), hits, rounds);
    from_caches = false;
  };
  judge_hits("ccache", ccache[0] + " ccache --print-stats", "direct_cache_hit\t");
  judge_hits("sccache", sccache[0] + " " + sccache[1] + " sccache --show-stats", "Cache hits  ");
  if (right && from_caches) print(peers, kiln.size());
  if (installed("sccache")) (void)run({"sccache", "--stop-server"}, sccache);
  return right && from_caches ? 0 : 1;
}

}  // namespace
}  // namespace kiln::service_test

int main(int argc, char** argv) { return kiln::service_test::main_of(argc, argv); }
