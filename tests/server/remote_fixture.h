// Several daemons, each with directories of its own as on a machine of its own, that share a Redis.
#pragma once

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "service_fixture.h"

namespace kiln::service_test {

class RemoteServiceTest : public ServiceTest {
 protected:
  class Host {
   public:
    Host(const std::string& directory, const std::string& url, const std::string& mode,
         const std::vector<std::string>& trust, const std::vector<std::string>& more = {})
        : runtime_(directory + "/run") {
      std::filesystem::create_directories(directory);
      std::vector<std::string> words = {"--cache-dir",
                                        directory + "/cache",
                                        "--worker",
                                        KILN_TEST_WORKER,
                                        "--workers",
                                        "2",
                                        "--remote",
                                        url,
                                        "--remote-mode",
                                        mode,
                                        "--remote-timeout",
                                        "60",
                                        "--remote-connect-timeout",
                                        "60"};
      words.insert(words.end(), trust.begin(), trust.end());
      words.insert(words.end(), more.begin(), more.end());
      EXPECT_EQ(daemon_.start(runtime_, words), "ready");
    }
    std::unique_ptr<Connection> connection() const {
      ConnectOptions options;
      options.runtime_dir = runtime_;
      options.kilnd_path = KILN_TEST_KILND;
      options.worker_path = KILN_TEST_WORKER;
      options.autostart = false;
      options.allow_pipe = false;
      options.start_timeout = kPatience;
      auto out = Connection::open(options);
      EXPECT_TRUE(out) << out.error().message;
      return out ? std::move(*out) : nullptr;
    }
    nlohmann::json stats() const { return figures_of(*connection()); }
    DaemonProcess& daemon() { return daemon_; }

   private:
    std::string runtime_;
    DaemonProcess daemon_;
  };

  // A file with a secret in it.
  std::string secret(const std::string& name, const std::string& text) const {
    const std::string path = temp_ / name;
    std::ofstream(path) << text << "\n";
    ::chmod(path.c_str(), 0600);
    return path;
  }
};

}  // namespace kiln::service_test
