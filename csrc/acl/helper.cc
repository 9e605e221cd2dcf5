// SPDX-License-Identifier: Apache-2.0
// The Python process that makes plans and traces kernels, started at the first call that needs one.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "plan.h"

extern char** environ;

namespace mco_acl {
namespace {

constexpr size_t kMostAnswer = size_t(1) << 30;

// What a checkout was built with: a file beside the library.
std::string noted(const std::string& library) {
  std::ifstream file(library.substr(0, library.rfind('/') + 1) + "python");
  std::string path;
  std::getline(file, path);
  return path;
}

// The environment that this library is installed in or was built with, else the first python3 of PATH.
std::string python() {
  const std::string given = variable("MS_CUSTOM_OPS_PYTHON");
  if (!given.empty()) return given;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&ask_python), &info) && info.dli_fname) {
    const std::string path = info.dli_fname;
    const size_t packages = path.rfind("/site-packages/");
    const size_t lib = packages == std::string::npos ? packages : path.rfind("/lib", packages - 1);
    if (lib != std::string::npos) {
      const std::string own = path.substr(0, lib) + "/bin/python3";
      if (access(own.c_str(), X_OK) == 0) return own;
    }
    const std::string builder = noted(path);
    if (!builder.empty() && access(builder.c_str(), X_OK) == 0) return builder;
  }
  return "python3";
}

class Helper {
 public:
  ~Helper() { stop(); }

  Answer ask(const std::string& request) {
    if (owner_ != getpid()) forget();
    if (socket_ < 0) start();
    try {
      send_all(std::to_string(request.size()) + "\n" + request);
      return receive();
    } catch (...) {
      stop();  // what it would answer next is no answer to the next question
      throw;
    }
  }

 private:
  void start() {
    const std::string program = python();
    if (program == "off") refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "MS_CUSTOM_OPS_PYTHON is off");
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
      refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no socket: %s", std::strerror(errno));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const char* words[] = {program.c_str(), "-m", "ms_custom_ops", "aclnn", "--serve", nullptr};
    const int failed =
        posix_spawnp(&child_, program.c_str(), &actions, nullptr, const_cast<char* const*>(words), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed) {
      close(ends[0]);
      refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "%s cannot be started: %s", program.c_str(), std::strerror(failed));
    }
    socket_ = ends[0];
    owner_ = getpid();
    name_ = program;
  }

  // In the child of a fork the helper is the parent's.
  void forget() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
    child_ = -1;
  }

  void stop() {
    if (socket_ < 0 || owner_ != getpid()) return;
    close(socket_);
    socket_ = -1;
    waitpid(child_, nullptr, 0);
  }

  [[noreturn]] void ended() const {
    refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
           "%s -m ms_custom_ops aclnn --serve ended without an answer (what it printed "
           "says why)",
           name_.c_str());
  }

  void send_all(const std::string& text) const {
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) ended();
      at += size_t(n);
    }
  }

  void take(char* out, size_t size) const {
    for (size_t at = 0; at < size;) {
      const ssize_t n = recv(socket_, out + at, size - at, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) ended();
      at += size_t(n);
    }
  }

  Answer receive() const {
    std::string line;
    for (char c = 0; c != '\n'; line += c) {
      take(&c, 1);
      if (line.size() > 64) ended();
    }
    size_t sizes[3] = {};
    if (std::sscanf(line.c_str(), "%zu %zu %zu", &sizes[0], &sizes[1], &sizes[2]) != 3) ended();
    Answer answer;
    std::string* parts[] = {&answer.plan, &answer.key, &answer.program};
    for (int i = 0; i < 3; ++i) {
      if (sizes[i] > kMostAnswer) ended();
      parts[i]->resize(sizes[i]);
      if (sizes[i]) take(&(*parts[i])[0], sizes[i]);
    }
    return answer;
  }

  int socket_ = -1;
  pid_t child_ = -1, owner_ = -1;
  std::string name_;
};

}  // namespace

Answer ask_python(const std::string& request) {
  static std::mutex mutex;
  static Helper helper;  // its end ends the process
  const std::lock_guard<std::mutex> lock(mutex);
  return helper.ask(request);
}

}  // namespace mco_acl
