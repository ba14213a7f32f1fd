#include "torch.h"

#include <cstdlib>
#include <sstream>

namespace kiln::bench {

Torch::Torch(const std::string& python, int threads)
    : child_(boost::process::search_path(python), std::string(KILN_PEERS), std::to_string(threads),
             boost::process::std_in<to_, boost::process::std_out> from_, error_) {}

Torch::~Torch() {
  to_.pipe().close();
  if (!error_) child_.wait(error_);
}

// One question and answer at a time.
std::string Torch::ask(const std::string& question) {
  std::string answer;
  if (error_ || !(to_ << question << std::endl) || !std::getline(from_, answer)) return "none peers.py did not answer";
  return answer;
}

std::vector<std::string> Torch::prepare(const quickstart::Case& test, std::string& why) {
  std::istringstream answer(ask("prepare " + test.kernel + " " + test.shape));
  std::vector<std::string> who;
  for (std::string name; answer >> name;) who.push_back(name);
  if (!who.empty() && who[0] == "none") {
    why = answer.str().substr(4);
    who.clear();
  }
  return who;
}

double Torch::seconds(const std::string& who, int repeats) {
  return std::atof(ask("run " + who + " " + std::to_string(repeats)).c_str());
}

}  // namespace kiln::bench
