// SPDX-License-Identifier: Apache-2.0
// The statement tree of a Program: decoding, and the rules of its structure.
#include <cstring>

#include "decode.h"
#include "instruction.h"

namespace mco {

namespace {

constexpr int kMaxNesting = 200;

struct Context {
  Reader& in;
  const Strings& strings;
  Program& p;
};

void check_loc(const Context& c, uint32_t loc) {
  if (loc >= c.p.locations.size())
    fail("program bytes: location number %u; the table has %zu", loc, c.p.locations.size());
}

uint32_t read_register(const Context& c) {
  const uint32_t index = c.in.take<uint32_t>();
  if (index >= c.p.registers.size())
    fail("program bytes: register number %u; the table has %zu", index, c.p.registers.size());
  return index;
}

std::unique_ptr<Instr> read_instr(const Context& c, uint32_t loc) {
  const std::string& name = c.in.string(c.strings);
  auto instr = std::make_unique<Instr>();
  instr->op = find_op(name);
  instr->loc = loc;
  const unsigned tensors = c.in.take<uint8_t>(), args = c.in.take<uint8_t>(), attrs = c.in.take<uint8_t>();
  c.in.take<uint8_t>();
  if (!instr->op) fail("program bytes: unknown instruction %s [%s]", name.c_str(), c.p.location(loc).c_str());
  const OpInfo& op = *instr->op;
  if (tensors != op.tensors.size() || args != op.args.size() || attrs != op.attrs.size()) {
    fail("%s: tensors, args and attrs are %u, %u, %u; accepted: %zu, %zu, %zu [%s]", name.c_str(), tensors, args, attrs,
         op.tensors.size(), op.args.size(), op.attrs.size(), c.p.location(loc).c_str());
  }
  for (unsigned i = 0; i < tensors; ++i) instr->tensors.push_back(read_operand(c.in, c.p));
  for (unsigned i = 0; i < args; ++i) instr->args.push_back(read_root(c.p, c.in.take<uint32_t>()));
  for (unsigned i = 0; i < attrs; ++i) instr->attrs.push_back(c.in.take<int64_t>());
  check_instr(c.p, *instr);
  c.p.has_barrier = c.p.has_barrier || name == "block_barrier";
  return instr;
}

Body read_statements(const Context& c, int depth, int loops);

void read_for(const Context& c, Statement& s, int depth, int loops) {
  s.what = What::For;
  s.index = read_register(c);
  s.a = read_root(c.p, c.in.take<uint32_t>());
  s.b = read_root(c.p, c.in.take<uint32_t>());
  if (is_float(c.p.exprs.dtype(s.a)) || is_float(c.p.exprs.dtype(s.b))) {
    fail("for: a bound is a float; accepted: integers [%s]", c.p.location(s.loc).c_str());
  }
  s.block = c.in.take<uint8_t>() != 0;
  c.in.take<uint8_t>();  // threads: double buffering matters to the timing only
  if (s.block && depth != 0) {
    fail("for: the multi-core loop is nested in another statement; accepted: the top level of a kernel [%s]",
         c.p.location(s.loc).c_str());
  }
  s.body = read_statements(c, depth + 1, loops + 1);
}

void read_plain(const Context& c, Statement& s, uint8_t kind) {
  switch (kind) {
    case 3:
      s.what = What::Assign;
      s.index = read_register(c);
      s.a = read_root(c.p, c.in.take<uint32_t>());
      break;
    case 4:
      s.what = What::Load;
      s.index = read_register(c);
      s.ref = read_operand(c.in, c.p);
      break;
    case 5:
      s.what = What::Store;
      s.ref = read_operand(c.in, c.p);
      s.a = read_root(c.p, c.in.take<uint32_t>());
      break;
    default:
      s.what = What::Alloc;
      s.index = c.in.take<uint32_t>();
      if (s.index >= c.p.buffers.size())
        fail("program bytes: buffer number %u; the table has %zu", s.index, c.p.buffers.size());
  }
}

void read_jump(const Context& c, Statement& s, int loops) {
  s.what = What::Jump;
  const uint8_t kind = c.in.take<uint8_t>();
  if (kind > 2) fail("program bytes: jump kind %u; accepted: 0 to 2", kind);
  s.jump = Flow(kind);
  if (kind < 2 && loops == 0) {
    fail("%s: outside of a loop [%s]", kind == 0 ? "break" : "continue", c.p.location(s.loc).c_str());
  }
}

Statement read_statement(const Context& c, int depth, int loops) {
  Statement s;
  const uint8_t kind = c.in.take<uint8_t>();
  s.loc = c.in.take<uint32_t>();
  check_loc(c, s.loc);
  switch (kind) {
    case 0:
      s.what = What::Instr;
      s.instr = read_instr(c, s.loc);
      break;
    case 1:
      read_for(c, s, depth, loops);
      break;
    case 2:
      s.what = What::If;
      s.a = read_root(c.p, c.in.take<uint32_t>());
      s.body = read_statements(c, depth + 1, loops);
      s.orelse = read_statements(c, depth + 1, loops);
      break;
    case 3:
    case 4:
    case 5:
    case 6:
      read_plain(c, s, kind);
      break;
    case 7:
      read_jump(c, s, loops);
      break;
    default:
      fail("program bytes: unknown statement kind %u with %zu bytes left", kind, c.in.left());
  }
  return s;
}

Body read_statements(const Context& c, int depth, int loops) {
  if (depth > kMaxNesting) fail("program bytes: statements nest deeper than %d", kMaxNesting);
  constexpr size_t kSmallest = 6;  // bytes of a jump
  const uint32_t n = c.in.count(kSmallest);
  Body body;
  body.reserve(n);
  for (uint32_t i = 0; i < n; ++i) body.push_back(read_statement(c, depth, loops));
  return body;
}

}  // namespace

void read_body(Reader& in, const Strings& strings, Program& p) {
  p.body = read_statements(Context{in, strings, p}, 0, 0);
  for (const Statement& s : p.body) {
    if (s.what != What::For || !s.block) continue;
    if (p.block_loop) {
      fail("for: a second multi-core loop; accepted: one [%s]", p.location(s.loc).c_str());
    }
    p.block_loop = &s;
  }
}

}  // namespace mco
