// A person's ways through the console, in a real Chromium: node walk.cjs '{"way":"…","url":"…","token":"…","shots":"…"}'.
//
// Whatever page is seen on the way: nothing runs on it, nothing is asked of another host, its policy is not violated, and
// the browser complains of nothing. What a way promises is said by the test that calls it.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const { AxeBuilder } = require("@axe-core/playwright");

const { way, url, token, shots, pages = [], state, size, scheme } = JSON.parse(process.argv[2]);
const SIZES = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };

let browser;

// A window of its own, watched. `expects`: what the browser may complain of.
async function open({ size = "desktop", scheme = "light", expects = [], ...more } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: scheme, locale: "en-GB", ...more });
  const page = await context.newPage();
  const faults = [];
  const told = (text) => expects.some((part) => text.includes(part)) || faults.push(text);
  page.on("console", (message) => told(`console: ${message.text()}`));
  page.on("pageerror", (error) => told(`error: ${error}`));
  page.on("dialog", (dialog) => { told(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    const asked = new URL(request.url());
    if (asked.protocol !== "data:" && asked.origin !== new URL(url).origin) told(`asks ${request.url()}`);
  });
  return { context, page, faults };
}

async function signIn(page, given = token) {
  await page.getByLabel("Admin token").fill(given);
  await page.getByRole("button", { name: "Sign in" }).click();
}

async function signedIn(options) {
  const window = await open(options);
  await window.page.goto(url);
  await signIn(window.page);
  await window.page.getByRole("heading", { name: "Unknown outcomes" }).waitFor();
  return window;
}

// What is wrong with the page as it stands; `closely`: for whoever does not see it, too.
async function looked(page, name, closely = true) {
  const found = [];
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wide > 0) found.push(`${name}: ${wide} px wider than the window`);
  const scripts = await page.evaluate(() => document.querySelectorAll("script,iframe,object,embed,img,[onload],[onerror],[onclick]").length);
  if (scripts > 0) found.push(`${name}: ${scripts} elements that could run or load something`);
  const ran = await page.evaluate(() => window.ran);
  if (ran !== undefined) found.push(`${name}: a script ran`);
  if (!closely) return found;
  const { violations } = await new AxeBuilder({ page }).analyze();
  for (const { id, help, nodes } of violations) found.push(`${name}: ${id}: ${help}: ${nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
  return found;
}

// Links and buttons that a finger misses.
async function small(page) {
  return page.evaluate(() => [...document.querySelectorAll("header a, header button, .ask button, .ask input, .ranges a, summary, .pages a, .sign-in button, .sign-in input:not([type=hidden])")]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height > 0 && one.getBoundingClientRect().height < 24)
    .map((one) => one.outerHTML.slice(0, 120)));
}

const WAYS = {
  // In by the token, out again, and never by anything else.
  async door() {
    const { context, page, faults } = await open({ expects: ["401 (Unauthorized)"] });
    await page.goto(`${url}/console/search?q=ord_9f2`);
    assert.equal(new URL(page.url()).pathname, "/console/sign-in");
    assert.ok(!(await page.content()).includes("billing"), "a stranger is told the service's name");
    await signIn(page, "not-the-token-of-anybody");
    await page.getByRole("alert").waitFor();
    assert.match(await page.getByRole("alert").textContent(), /not the admin token/);
    assert.deepEqual(await context.cookies(), []);
    await signIn(page);
    await page.waitForURL(/\/console\/search\?q=ord_9f2$/);
    const [cookie, ...others] = await context.cookies();
    assert.deepEqual(others, []);
    assert.ok(cookie.httpOnly && cookie.sameSite === "Strict" && cookie.path === "/" && cookie.value.length === 64);
    const hours = (cookie.expires - Date.now() / 1000) / 3600;
    assert.ok(hours > 7.9 && hours < 8.1, `it lasts ${hours} hours`);
    assert.equal(await page.evaluate(() => document.cookie), "");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/\/console\/sign-in$/);
    assert.deepEqual(await context.cookies(), []);
    // Who kept the cookie has nothing of it.
    await context.addCookies([cookie]);
    await page.goto(url);
    assert.equal(new URL(page.url()).pathname, "/console/sign-in");
    await page.goBack();
    assert.equal(new URL(page.url()).pathname, "/console/sign-in", "a page came back out of a cache");
    return faults;
  },

  // A session is left behind.
  async stay() {
    const { context, faults } = await signedIn();
    fs.writeFileSync(state, JSON.stringify(await context.storageState()));
    return faults;
  },

  // Somebody comes back with a session that is over.
  async return() {
    const { page, faults } = await open({ storageState: state });
    await page.goto(`${url}/console/policy`);
    assert.equal(new URL(page.url()).pathname, "/console/sign-in");
    await signIn(page);
    await page.getByRole("heading", { name: "Policy in force" }).waitFor();
    return faults;
  },

  // Every page at one size, in light or dark.
  async looks() {
    const stranger = await open({ size, scheme });
    await stranger.page.goto(url);
    const faults = [...await looked(stranger.page, "sign-in"), ...stranger.faults];
    await shot(stranger.page, `sign-in-${size}-${scheme}`);
    const window = await signedIn({ size, scheme });
    for (const [name, at] of pages) {
      await window.page.goto(url + at);
      const folded = window.page.locator("details:not([open]) > summary");
      const unfolds = await folded.count() > 0;
      faults.push(...await looked(window.page, name, !unfolds));
      if (size === "phone") faults.push(...(await small(window.page)).map((one) => `${name}: too small to touch: ${one}`));
      await shot(window.page, `${name}-${size}-${scheme}`);
      if (unfolds) {
        while (await folded.count() > 0) await folded.first().click();
        faults.push(...await looked(window.page, `${name} unfolded`));
        await shot(window.page, `${name}-unfolded-${size}-${scheme}`);
      }
    }
    return faults.concat(window.faults);
  },

  // Paged at 3am: who asked for the refund of ord_9f2? By keyboard alone, in a browser that runs no scripts.
  async night() {
    const { page, faults } = await open({ javaScriptEnabled: false });
    await page.goto(url);
    await page.keyboard.type(token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Unknown outcomes" }).waitFor();
    for (let tabs = 0; await page.locator("#q:focus").count() === 0; tabs += 1) {
      assert.ok(tabs < 12, "the search box is far away");
      await page.keyboard.press("Tab");
    }
    await page.keyboard.type("ord_9f2");
    await page.keyboard.press("Enter");
    await page.waitForURL(/q=ord_9f2/);
    const rows = page.locator("table.rows tbody tr");
    assert.ok(await rows.count() >= 3, "the attempt and its retries are found");
    for (const row of await rows.all()) assert.match(await row.textContent(), /alice/);
    await page.getByRole("link", { name: "rfnd-7781-a" }).first().focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /The story of rfnd-7781-a/ }).waitFor();
    const told = await page.locator("main").textContent();
    for (const part of ["alice", "outcome unknown", "oncegate claims resolve", "--completed", "--released"]) {
      assert.ok(told.includes(part), `the story does not say ${part}`);
    }
    await page.locator(".timeline a").first().focus();
    await page.keyboard.press("Enter");
    await page.getByText("idempotency_key", { exact: true }).waitFor();
    return faults;
  },

  // Pages on which strangers wrote what they could.
  async hostile() {
    const faults = [];
    for (const width of Object.keys(SIZES)) {
      const window = await signedIn({ size: width });
      const seen = new Set();
      const ahead = pages.map(([, at]) => at);
      while (ahead.length > 0 && seen.size < 24) {
        const at = ahead.shift();
        if (seen.has(at)) continue;
        seen.add(at);
        const answer = await window.page.goto(url + at);
        if (answer.status() !== 200) faults.push(`${at}: ${answer.status()}`);
        faults.push(...(await looked(window.page, at, seen.size <= 5)).map((fault) => `${width} ${fault}`));
        const links = await window.page.evaluate(() => [...document.links].map((link) => link.href));
        for (const link of links) {
          const to = new URL(link);
          if (to.origin !== new URL(url).origin) faults.push(`${at} leads to ${link}`);
          if (/\/console\/(rows|story)/.test(to.pathname)) ahead.push(to.pathname + to.search);
        }
      }
      assert.ok(seen.size > 10, `only ${seen.size} pages were seen`);
      await window.page.goto(url + pages[0][1]);
      await shot(window.page, `hostile-${width}`);
      faults.push(...window.faults);
      await window.context.close();
    }
    return faults;
  },
};

async function shot(page, name) {
  if (shots) await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
}

(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu"],
  });
  try {
    const faults = await WAYS[way]();
    assert.deepEqual(faults, []);
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error.stack || error);
  process.exitCode = 1;
});
