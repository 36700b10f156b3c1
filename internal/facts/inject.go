//go:build unix

package facts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// credentials finds the variables of a definition's credentials, what the host adds to requests, and the
// certificate that commands trust then. Without isolation, commands get only what is passed on.
func (m *Machine) credentials(ctx context.Context, q *Request, out *Resolution, in *view.Input) error {
	var hosts []string
	def := &q.Definition
	sets := m.Sets() // Renew replaces them at any time
	if err := view.CheckCredentials(def, sets); err != nil {
		return err
	}
	names, injected := view.SplitCredentials(def, sets)
	if !q.Unisolated {
		names = append(names, injected...)
	}
	for _, name := range names {
		own, isOwn := sets[name]
		origin := fmt.Sprintf("%s %q", view.OriginInject, name)
		if name == view.CredentialSSHAgent {
			var err error
			if in.Agent, err = m.agentSocket(); err != nil {
				return view.Invalid(fmt.Sprintf("credentials[%d]", slices.Index(q.Credentials, name)), err.Error(), "start ssh-agent and run as its user, or leave ssh-agent out")
			}
			out.credentialVars = append(out.credentialVars, env.Secret{Name: "SSH_AUTH_SOCK", Value: Follow(in.Agent).End, Origin: origin})
			continue
		}
		list, more, err := m.credential(ctx, name, own, origin, q.Planning || own.Pass) // passToken asks gh
		if err != nil {
			out.credentialNotes = append(out.credentialNotes, fmt.Sprintf("%s: %s: %v", view.OriginInject, name, err))
			if !own.Pass {
				continue
			}
		}
		for _, c := range list {
			for variable, secret := range c.Env {
				value := string(secret)
				if !own.Pass {
					out.withheldSecrets = append(out.withheldSecrets, value)
					value = view.Placeholder(variable)
				}
				out.credentialVars = append(out.credentialVars, env.Secret{Name: variable, Value: value, Origin: origin})
			}
			if own.Pass {
				continue
			}
			if !isOwn {
				if c.Hosts, err = view.GitHubHosts(def, strings.TrimSuffix(c.Hosts[0], ":443")); err != nil {
					return err
				}
			}
			out.Inject.Credentials = append(out.Inject.Credentials, shared.Credential{Hosts: c.Hosts, Header: cmp.Or(c.Header, "Authorization"), Placeholder: c.Placeholder, Value: c.Value})
			hosts = append(hosts, c.Hosts...)
		}
		out.credentialVars = append(out.credentialVars, more...)
	}
	if hosts == nil {
		return nil
	}
	slices.Sort(hosts)
	c, err := m.certificates.forHosts(slices.Compact(hosts))
	if err != nil {
		return err
	}
	in.Substitutes, out.Inject.Certificate = []view.Substitute{c.trust}, c.secret
	for _, name := range view.TrustVariables {
		out.credentialVars = append(out.credentialVars, env.Secret{Name: name, Value: c.trust.Path, Origin: view.OriginInject})
	}
	return nil
}

// certificates are those that commands trust for hosts of credentials.
type certificates struct {
	byHosts sync.Map // each by its list of hosts
	copies  sync.Map // paths of the files that have them, for Close
}

type certificate struct {
	trust  view.Substitute // the host's file of certificates, with this one
	secret shared.Secret   // this one with its key
}

func (cs *certificates) forHosts(hosts []string) (*certificate, error) {
	key := strings.Join(hosts, " ")
	if c, ok := cs.byHosts.Load(key); ok {
		return c.(*certificate), nil
	}
	c, err := newCertificate(hosts)
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: view.OriginInject, Message: err.Error()}
	}
	first, _ := cs.byHosts.LoadOrStore(key, c)
	return first.(*certificate), nil
}

// bundles are where distributions keep the trusted certificates, as in package crypto/x509.
var bundles = [...]string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}

// newCertificate makes a certificate for these hosts, which signs itself.
func newCertificate(hosts []string) (*certificate, error) {
	c := &certificate{}
	for _, file := range bundles {
		way := Follow(file)
		content, err := os.ReadFile(way.End)
		if way.Err == nil && err == nil {
			c.trust = view.Substitute{Path: way.End, At: way.End, Content: content, Why: view.OriginInject}
			break
		}
	}
	if c.trust.Path == "" {
		return nil, fmt.Errorf("there is no file of certificates to trust, such as %s: install the package ca-certificates", bundles[0])
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	form := &x509.Certificate{
		Subject: pkix.Name{CommonName: "sandbox, for one session"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0), DNSNames: hosts,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, // no authority: nothing that it signs is trusted
	}
	cert, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	c.trust.Content = slices.Concat(bytes.TrimRight(c.trust.Content, "\n"), []byte("\n"), own)
	c.secret = shared.Secret(slices.Concat(own, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return c, nil
}
