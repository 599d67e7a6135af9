import i18next from "i18next";
import { useEffect, useState } from "react";
import { initReactI18next, useTranslation } from "react-i18next";

export const LANGUAGES = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

const KEPT = "rota-language";
const CATALOGS: Record<Language, () => Promise<{ default: object }>> = {
  en: () => import("./locales/en.json"),
  "zh-CN": () => import("./locales/zh-CN.json"),
};

function preferred(): Language {
  const kept = window.localStorage.getItem(KEPT);
  if (kept === "en" || kept === "zh-CN") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

export async function startI18n(): Promise<void> {
  await i18next.use(initReactI18next).init({
    lng: undefined,
    fallbackLng: false,
    resources: {},
    interpolation: { escapeValue: false }, // React escapes
    returnNull: false,
  });
  await speak(preferred());
}

let wanted: Language | null = null;

export async function speak(language: Language): Promise<void> {
  wanted = language;
  if (!i18next.hasResourceBundle(language, "translation")) {
    i18next.addResourceBundle(language, "translation", (await CATALOGS[language]()).default);
  }
  if (wanted !== language) return; // somebody chose another one while this was on its way
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
  window.localStorage.setItem(KEPT, language);
}

export function language(): Language {
  return i18next.language === "zh-CN" ? "zh-CN" : "en";
}

type Words = Readonly<Record<string, string>>;

/** Words that the server says in English, in the language of the visitor; empty where that is English. */
export function useServerWords(load: () => Promise<{ default: Words }>): Words {
  const { i18n } = useTranslation();
  const [words, setWords] = useState<Words>({});
  useEffect(() => {
    let isOver = false;
    if (i18n.language === "en") setWords({});
    else void load().then((found) => isOver || setWords(found.default));
    return () => {
      isOver = true;
    };
  }, [i18n.language, load]);
  return words;
}

/**
 * A sentence of the server in the words of a catalog, whose keys are sentences with {{blanks}}; null where none fits. What stands
 * in a blank stays as it is, but for a {{kind}}, which has words of its own; a {{word}} has no space in it.
 */
export function reword(words: Words, sentence: string): string | null {
  for (const [form, text] of Object.entries(words)) {
    const found = toPattern(form).exec(sentence);
    if (found) return text.replace(BLANK, (_, name: string) => spell(words, name, found.groups?.[name] ?? ""));
  }
  return null;
}

const BLANK = /\{\{(\w+)\}\}/g;

function toPattern(form: string): RegExp {
  const seen = new Set<string>();
  const parts = form.split(/\{\{(\w+)\}\}/).map((part, place) => {
    if (place % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    if (seen.has(part)) return `\\k<${part}>`;
    seen.add(part);
    return `(?<${part}>${part.startsWith("kind") ? "[a-z ]+" : part === "word" ? "\\S+" : ".+?"})`;
  });
  return new RegExp(`^${parts.join("")}$`, "s");
}

function spell(words: Words, name: string, value: string): string {
  return name.startsWith("kind") ? value.split(" or ").map((one) => words[`kind ${one}`] ?? one).join("或") : value;
}
